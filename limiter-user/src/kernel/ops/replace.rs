//! Replaces the attachment of a version with another layout. A new program over new maps is swapped into the existing
//! link in one step. No packet passes unlimited, and all buckets start full.

use std::os::fd::AsFd;

use crate::{
    config::Mode,
    kernel::{
        Error, Failed, Result,
        ops::{
            attach::{load, lock_folder, record},
            change::Wanted,
            set::fixed,
        },
        state::{Folder, Pinned, Survey, foreign, generation, pins, survey::look, unpin},
        sys::{Dir, Interface, XdpMode, interface, link, lock, requirements},
    },
};

/// Replaces another version's attachment to the interface called `name`. Returns the layout of that version; `None`
/// if no other version is attached.
/// On an error before the swap, the attachment of the other version stays in force. After the swap the new limits are in
/// force, and repeating the command moves the remaining pins.
pub async fn replace(name: &str, wanted: &Wanted) -> Result<Option<u32>> {
    requirements::kernel()?;
    requirements::privileges()?;
    let folder = match Survey::take().await?.take_named(name) {
        Some((folder, Ok(Pinned::On(_, on)))) if on.name == name && !folder.is_of_this_layout() => {
            folder
        }
        _ => return Ok(None),
    };
    let gone = || Error::NotAttached(name.to_owned());
    let old = folder.open()?.ok_or_else(gone)?;
    old.check_own()?;
    let _other_commands = lock::lock(&old)?;
    let (new, _lock) = lock_folder(name)?;
    // No other command changes either folder from here on.
    let swapped = swap(&folder, &old, &new, wanted).await;
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

/// Removes the pins that a killed [`replace`] has left, in either layout, of an interface that is not limited.
pub(in crate::kernel) fn clear_leftovers(name: &str, interfaces: &[Interface]) -> Result<()> {
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

/// Loads the new program, pins it with its maps in `new`, and swaps it into the link that is pinned in `old`.
async fn swap(folder: &Folder, old: &Dir, new: &Dir, wanted: &Wanted) -> Result<()> {
    let Pinned::On(link, interface) = look(folder, &interface::all().await?)? else {
        return Err(Error::NotAttached(folder.interface.clone()));
    };
    if foreign::is_pinned(old) {
        return Err(Error::Refused(format!(
            "another version of limiter runs in front of another program on '{0}' (--chain), and this version cannot replace it: `limiter detach {0}` puts that program back, then attach again",
            interface.name
        )));
    }
    let mode = interface.xdp.map_or(XdpMode::Native, |xdp| xdp.mode);
    // A link stays in its mode.
    let wanted_mode = wanted.settings.mode.to_string();
    if wanted.settings.mode != Mode::Auto && wanted_mode != mode.name() {
        return Err(fixed(&interface.name, "mode", mode.name(), &wanted_mode).into());
    }
    unpin::empty(new)?;
    let mut record = record(&interface, mode, wanted)?;
    let program = load(&mut record, |_| Ok(()))?;
    generation::pin_first(&program, &record, new)?;
    link.replace(None, program.fd()?.as_fd())
}
