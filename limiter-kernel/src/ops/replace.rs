//! Replaces the attachment of a version with another layout. A new program over new maps is swapped into the existing
//! link in one step. No packet passes unlimited, and all buckets start full.

use std::os::fd::AsFd;

use limiter_config::Mode;

use crate::{
    Error, Failed, Result,
    ops::{
        attach::{check_pacing, load, lock_folder, record},
        change::Wanted,
        set::fixed,
    },
    state::{
        Folder, Pinned, Survey, foreign, generation, pins,
        survey::{look, trouble},
        unpin,
    },
    sys::{Dir, Interface, Link, XdpMode, link, lock, requirements},
};

/// Replaces another version's attachment to the interface called `name`. Returns the layout of that version; `None`
/// if no other version is attached, or if another command has replaced or detached it meanwhile.
/// On an error before the swap, the attachment of the other version stays in force. After the swap the new limits are in
/// force, and repeating the command moves the remaining pins.
pub async fn replace(name: &str, wanted: &Wanted) -> Result<Option<u32>> {
    requirements::kernel()?;
    requirements::privileges()?;
    let Some((folder, ..)) = other_version(&mut Survey::take().await?, name) else {
        return Ok(None);
    };
    let Some(old) = folder.open()? else {
        return Ok(None);
    };
    old.check_own()?;
    let Some(_other_commands) = lock::lock(&old)? else {
        return Ok(None);
    };
    let (new, _lock) = lock_folder(name)?;
    // No other command changes either folder from here on.
    let mut survey = Survey::take().await?;
    let found = other_version(&mut survey, name).filter(|(now, ..)| *now == folder);
    let in_the_way = pinned_in(&new, survey);
    let (Some((_, link, interface)), None) = (found, &in_the_way) else {
        // The folder is empty if it was made just now.
        let _ = new.remove();
        unpin::clear_above(&new);
        return in_the_way.map_or(Ok(None), Err);
    };
    let swapped = swap(&link, &interface, [&old, &new], wanted).await;
    if swapped.is_err() {
        // The next command clears leftovers.
        let _ = unpin::remove(&new);
    }
    swapped?;
    old.move_pin(link::NAME, &new)
        .failed_at("moving", old.path().join(link::NAME))?;
    // `detach` clears leftovers.
    let _ = unpin::remove(&old);
    Ok(Some(folder.layout))
}

/// Another version's attachment to the interface called `name`.
fn other_version(survey: &mut Survey, name: &str) -> Option<(Folder, Link, Interface)> {
    match survey.take_named(name)? {
        (folder, Ok(Pinned::On(link, interface)))
            if interface.name == name && !folder.is_of_this_layout() =>
        {
            Some((folder, link, interface))
        }
        _ => None,
    }
}

/// The error for an attachment whose pins are in `new`: one to an interface that had this name before.
fn pinned_in(new: &Dir, survey: Survey) -> Option<Error> {
    let mut found = survey.found.into_iter();
    let (folder, pinned) = found.find(|(folder, _)| folder.path == new.path())?;
    trouble(&folder, pinned, &survey.interfaces)
}

/// Removes the pins that a killed [`replace`] has left, in either layout, of an interface that is not limited.
pub(crate) fn clear_leftovers(name: &str, interfaces: &[Interface]) -> Result<()> {
    let here = pins::namespace()?;
    for folder in pins::folders()? {
        // A running `attach` holds the lock, and has no link yet.
        if folder.interface == name
            && folder.namespace == here
            && let Some(dir) = folder.open()?
            && let Some(_lock) = lock::try_lock(&dir)?
            && matches!(look(&folder, interfaces), Ok(Pinned::Leftover))
            && !foreign::is_pinned(&dir)
        {
            unpin::remove(&dir)?;
        }
    }
    Ok(())
}

/// Loads the new program, pins it with its maps in `new`, and swaps it into `link`, which is pinned in `old`.
async fn swap(
    link: &Link,
    interface: &Interface,
    [old, new]: [&Dir; 2],
    wanted: &Wanted,
) -> Result<()> {
    if foreign::is_pinned(old) {
        return Err(Error::Refused(format!(
            "another version of limiter runs in front of another program on '{0}' (--chain), and this version cannot replace it: `limiter detach {0}` puts that program back, then attach again",
            interface.name
        )));
    }
    let mode = interface.xdp.map_or(XdpMode::Native, |xdp| xdp.mode);
    let wanted_mode = wanted.settings.mode;
    if !is_of_mode(mode, wanted_mode) {
        return Err(fixed(
            &interface.name,
            "mode",
            mode.name(),
            &wanted_mode.to_string(),
        )
        .into());
    }
    check_pacing(interface, &wanted.settings).await?;
    unpin::empty(new)?;
    let mut record = record(interface, mode, wanted)?;
    if mode == XdpMode::Generic && wanted_mode != Mode::Generic {
        record.fallback = Some(format!(
            "the version before ran in generic mode, and a link stays in its mode (`limiter detach {}` and `attach` try native mode)",
            interface.name
        ));
    }
    let program = load(&mut record, &wanted.bans, |_| Ok(()))?;
    generation::pin_first(&program, &record, new)?;
    link.replace(None, program.fd()?.as_fd())
}

/// Returns true if a link in `mode`, in which it stays, fits the settings.
fn is_of_mode(mode: XdpMode, wanted: Mode) -> bool {
    match wanted {
        Mode::Auto => true,
        Mode::Xdp => [XdpMode::Native, XdpMode::Generic].contains(&mode),
        _ => wanted.to_string() == mode.name(),
    }
}
