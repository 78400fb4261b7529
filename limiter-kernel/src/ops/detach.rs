//! Detaching: first the link, then the pins. Only the program that was there before remains.

use crate::{
    Attachment, Error, Result,
    ops::replace,
    state::{
        Folder, Foreign, Found, Pinned, Survey, pins, stray,
        survey::{is_here, look},
        unpin,
    },
    sys::{Dir, Interface, Link, Lock, bpffs, interface, lock, requirements},
};

/// Detaches from the interface called `name`, or clears the leftovers of an attachment of that name.
/// Returns the program that limiter ran in front of, which runs again.
pub async fn detach(name: &str) -> Result<Option<Foreign>> {
    match detach_if(name, async || true).await {
        Err(Error::NotAttached(name)) => {
            Err(stray::on(&name).await?.unwrap_or(Error::NotAttached(name)))
        }
        detached => detached,
    }
}

/// Detaches from the interface called `name` if nothing was changed since `attach`. Returns whether it has.
pub async fn detach_unchanged(name: &str) -> Result<bool> {
    let is_unchanged = async || {
        let opened = Attachment::open(name).await;
        opened.is_ok_and(|attachment| attachment.current.in_force.number == 0)
    };
    detach_if(name, is_unchanged).await?;
    Ok(Attachment::open(name).await.is_err())
}

/// Clears the leftovers of an attachment to the interface called `name` that limits nothing: a trial is over, the
/// interface is gone, or another tool took the program off. Changes nothing if another command has cleared them meanwhile,
/// or has attached anew.
pub async fn clear_ended(name: &str) -> Result<()> {
    let has_ended = async || {
        let opened = Attachment::open(name).await;
        matches!(
            opened,
            Err(Error::TrialOver(..) | Error::TakenOff(_) | Error::Gone(..))
        )
    };
    match detach_if(name, has_ended).await {
        Err(Error::NotAttached(_)) => Ok(()),
        cleared => cleared.map(drop),
    }
}

/// Detaches from the interface called `name`, unless `is_wanted` returns false with the lock of the attachment.
async fn detach_if(name: &str, is_wanted: impl AsyncFn() -> bool) -> Result<Option<Foreign>> {
    const TRIES: usize = 10;
    requirements::privileges()?;
    for _ in 0..TRIES {
        let (folder, _) = pins_of(&mut Survey::take().await?, name)?;
        let Some((dir, _lock)) = lock_folder(&folder)? else {
            continue;
        };
        // No program is swapped from here on.
        let mut survey = Survey::take().await?;
        let (now, pinned) = pins_of(&mut survey, name)?;
        if now == folder {
            if !is_wanted().await {
                return Ok(None);
            }
            return remove(&folder, &dir, pinned, &survey.interfaces).await;
        }
    }
    Err(Error::Busy(lock::PATIENCE.as_secs()))
}

/// Opens a folder and locks it; `None` if another command has removed it meanwhile.
fn lock_folder(folder: &Folder) -> Result<Option<(Dir, Lock)>> {
    let Some(dir) = folder.open()? else {
        return Ok(None);
    };
    Ok(lock::lock(&dir)?.map(|lock| (dir, lock)))
}

/// The pins of the attachment to the interface called `name`, or of one made when an interface had this name.
fn pins_of(survey: &mut Survey, name: &str) -> Result<Found> {
    match survey.take_named(name) {
        Some((folder, Ok(Pinned::On(_, interface)))) if interface.name != name => {
            Err(Error::Renamed(folder.interface, interface.name))
        }
        found => found.ok_or_else(|| survey.not_attached(name)),
    }
}

/// Detaches from all interfaces of this network namespace, and clears leftovers of interfaces and namespaces that are
/// gone. This includes versions with another layout. `everywhere`: also detaches in other network namespaces. Returns
/// one result for each attachment.
pub async fn detach_all(everywhere: bool) -> Result<Vec<(String, Result<Option<Foreign>>)>> {
    requirements::privileges()?;
    if !bpffs::look()? {
        return Ok(Vec::new());
    }
    let here = pins::namespace()?;
    let interfaces = interface::all().await?;
    let mut done = Vec::new();
    for folder in pins::folders()? {
        let elsewhere = folder.namespace != here;
        let pinned = look(&folder, &interfaces);
        if everywhere || !elsewhere || is_gone(&pinned) || is_here(&pinned) {
            let detached = detach_one(&folder, elsewhere, everywhere).await.transpose();
            done.extend(detached.map(|detached| (folder.interface, detached)));
        }
    }
    let Survey {
        interfaces, found, ..
    } = Survey::take().await?;
    let elsewhere = stray::all(&interfaces, &found).await?.into_iter();
    done.extend(elsewhere.filter_map(|error| match &error {
        Error::PinnedElsewhere(name, _) => Some((name.clone(), Err(error))),
        _ => None,
    }));
    Ok(done)
}

/// Returns true if the pins limit nothing any more.
fn is_gone(pinned: &Result<Pinned>) -> bool {
    matches!(pinned, Ok(Pinned::Gone(_) | Pinned::Leftover))
}

/// Detaches one folder's attachment; `None` if there is nothing to do.
async fn detach_one(
    folder: &Folder,
    elsewhere: bool,
    everywhere: bool,
) -> Result<Option<Option<Foreign>>> {
    let Some((dir, _lock)) = lock_folder(folder)? else {
        return Ok(None);
    };
    let interfaces = interface::all().await?;
    let pinned = look(folder, &interfaces);
    let elsewhere = elsewhere && !is_here(&pinned);
    if elsewhere && !everywhere && !is_gone(&pinned) {
        // Limiter was attached again meanwhile.
        return Ok(None);
    }
    if elsewhere
        && is_gone(&pinned)
        && let Some(foreign) = Foreign::open(&dir)?
    {
        // The other program belongs there, and this process cannot tell whether that namespace still exists. A command
        // there may yet put it back, unless the link shows that its interface is gone.
        let is_left = matches!(pinned, Ok(Pinned::Leftover)) && !everywhere;
        let why = "it belongs to another network namespace, which may be gone";
        return match is_left {
            true => Ok(None),
            false => Err(foreign.not_put_back(&dir, why, "enter that namespace")),
        };
    }
    remove(folder, &dir, pinned, &interfaces).await.map(Some)
}

/// Removes an attachment. The link's pin goes first: then the link lives only as long as this process holds it. If
/// the process is killed here, the interface has no program, and the next command clears the other pins.
async fn remove(
    folder: &Folder,
    dir: &Dir,
    pinned: Result<Pinned>,
    interfaces: &[Interface],
) -> Result<Option<Foreign>> {
    // Another command may have made the folder for an attachment that is still to come.
    let is_empty = matches!(pinned, Ok(Pinned::Leftover)) && dir.names()?.is_empty();
    // The other program is opened before limiter is off, because neither of the two runs until it is back.
    let foreign = Foreign::open(dir)?;
    let is_there = match (&pinned, &foreign) {
        (Ok(Pinned::On(_, interface)), Some(foreign)) => interface.index == foreign.interface,
        (Ok(Pinned::Elsewhere(..)), _) => false,
        _ => true,
    };
    match pinned {
        Ok(Pinned::On(link, _) | Pinned::Elsewhere(link, _) | Pinned::Gone(link)) => {
            Link::unpin(dir)?;
            // Another process may hold the link too.
            if let Err(error) = link.detach() {
                // Nothing was changed, then.
                link.pin(dir)?;
                return Err(error);
            }
        }
        // The program may be running.
        Err(error @ Error::Stranger(..)) => return Err(error),
        // A pin that is no link of an XDP program holds no program on an interface.
        Ok(Pinned::Leftover) | Err(_) => {}
    }
    if let Some(foreign) = foreign.as_ref().filter(|_| !is_there) {
        let why = "its interface is in another network namespace now, or its pin names another interface than limiter was attached to";
        let first = "put it back there (`bpftool net attach`)";
        return Err(foreign.not_put_back(dir, why, first));
    }
    let cleared = async {
        let foreign = match foreign {
            Some(foreign) => foreign.put_back(dir).await?,
            None => None,
        };
        unpin::remove(dir)?;
        replace::clear_leftovers(&folder.interface, interfaces)?;
        match is_empty {
            true => Err(Error::NotAttached(folder.interface.clone())),
            false => Ok(foreign),
        }
    };
    cleared.await.map_err(|error| match error {
        Error::Path { .. } | Error::NotPermitted(_) => {
            let name = &folder.interface;
            Error::Refused(format!(
                "limiter is detached from '{name}', but its pins are left ({error}): `limiter detach {name}` again removes them"
            ))
        }
        error => error,
    })
}
