//! Detaching: link, then pins, then nothing is left but what was there before.

use std::path::Path;

use super::{
    attachment::{Pinned, folders_here, look, no_other_version, of_other_versions},
    bpffs,
    error::{Error, Result},
    foreign::{self, Foreign},
    interface::{self, Interface},
    link::Link,
    pins::{self, Folder},
    requirements,
};

/// Detaches from the interface called `name`, or clears what is left of an attachment of that name.
/// Returns the program that limiter ran in front of, which runs again.
pub async fn detach(name: &str) -> Result<Option<Foreign>> {
    requirements::privileges()?;
    let interfaces = interface::all().await?;
    if !bpffs::look()? {
        return Err(nothing_there(&interfaces, name));
    }
    let _lock = bpffs::lock()?;
    // No program is swapped from here on.
    let interfaces = interface::all().await?;
    let (mut left, mut renamed) = (None, None);
    for folder in folders_here()? {
        let pinned = look(&folder);
        let on = match &pinned {
            Ok(Pinned::To(_, info)) => interface::of_link(&interfaces, info),
            _ => None,
        };
        match on {
            Some(on) if on.name == name => return remove(&folder, pinned, &interfaces),
            Some(on) if folder.interface == name => {
                renamed = Some(Error::Renamed {
                    old: name.to_owned(),
                    new: on.name.clone(),
                });
            }
            // Gone, or moved to another network namespace.
            None if folder.interface == name => left = Some((folder, pinned)),
            _ => {}
        }
    }
    // What the name once meant comes after what it means now.
    if let Some((folder, pinned)) = left {
        return remove(&folder, pinned, &interfaces);
    }
    no_other_version(&interfaces, name)?;
    Err(renamed.unwrap_or_else(|| nothing_there(&interfaces, name)))
}

fn nothing_there(interfaces: &[Interface], name: &str) -> Error {
    match interface::named(interfaces, name) {
        Ok(_) => Error::NotAttached(name.to_owned()),
        Err(error) => error,
    }
}

/// Detaches from all interfaces of this network namespace, and clears what is left of interfaces and
/// namespaces that are gone. Returns for each how it went.
pub async fn detach_all() -> Result<Vec<(String, Result<Option<Foreign>>)>> {
    requirements::privileges()?;
    if !bpffs::look()? {
        return Ok(Vec::new());
    }
    let _lock = bpffs::lock()?;
    let interfaces = interface::all().await?;
    let here = pins::namespace()?;
    let mut done = Vec::new();
    for folder in pins::folders()? {
        let pinned = look(&folder);
        let gone = matches!(pinned, Ok(Pinned::Gone(_) | Pinned::Leftover));
        if folder.namespace == here || gone {
            let elsewhere = folder.namespace != here && matches!(pinned, Ok(Pinned::Leftover));
            if elsewhere && foreign::is_pinned(&folder.path) {
                // It is to be put back there, and whether there still is, cannot be told.
                continue;
            }
            let removed = remove(&folder, pinned, &interfaces);
            done.push((folder.interface, removed));
        }
    }
    let of_others = of_other_versions(&interfaces)?.into_iter();
    done.extend(of_others.map(|(interface, error)| (interface, Err(error))));
    Ok(done)
}

/// The link's pin goes first: from then on the link lives only as long as this process holds it, and
/// whoever is killed here leaves an interface without a program, and pins that the next command
/// clears.
fn remove(
    folder: &Folder,
    pinned: Result<Pinned>,
    interfaces: &[Interface],
) -> Result<Option<Foreign>> {
    let moved = matches!(&pinned, Ok(Pinned::To(_, info)) if interface::of_link(interfaces, info).is_none());
    // Before limiter is off: until the other program is back, neither of the two runs.
    let foreign = Foreign::open(&folder.path)?;
    match pinned {
        Ok(Pinned::To(link, _) | Pinned::Gone(link)) => {
            // On trial there is no pin: a process holds the link.
            let is_pinned = link.try_until().is_none();
            if is_pinned {
                Link::unpin(&folder.path)?;
            }
            // Another process may hold the link too.
            if let Err(error) = link.detach() {
                // Nothing was changed, then.
                if is_pinned {
                    link.pin(&folder.path)?;
                }
                return Err(error);
            }
        }
        // Somebody holds the link, and the program runs.
        Err(error @ (Error::TrialSilent { .. } | Error::TrialElsewhere(_) | Error::Busy(_))) => {
            return Err(error);
        }
        // What is no link of an XDP program holds none on an interface.
        Ok(Pinned::Leftover) | Err(_) => {}
    }
    if moved && foreign.is_some() {
        return Err(not_here(
            &folder.path,
            "the interface is in another network namespace now",
            "put it back there (`bpftool net attach`)",
        ));
    }
    foreign::clear(&folder.path, foreign).map_err(|error| match error {
        Error::Path { .. } | Error::Denied { .. } | Error::NotPermitted => Error::PinsLeft {
            interface: folder.interface.clone(),
            why: Box::new(error),
        },
        error => error,
    })
}

fn not_here(folder: &Path, why: &str, first: &'static str) -> Error {
    match Foreign::open(folder) {
        Ok(Some(foreign)) => foreign.not_put_back(folder, why.to_owned(), first),
        Ok(None) => Error::NotAttached(pins::interface_of(folder).unwrap_or_default()),
        Err(error) => error,
    }
}
