//! Detaching: link, then pins, then nothing is left.

use super::{
    attachment::{Pinned, folders_here, look},
    bpffs,
    error::{Error, Result},
    interface::{self, Interface},
    link::Link,
    pins::{self, Folder},
    requirements,
};

/// Detaches from the interface called `name`, or clears what is left of an attachment of that name.
pub async fn detach(name: &str) -> Result<()> {
    requirements::privileges()?;
    let interfaces = interface::all().await?;
    if !bpffs::look()? {
        return Err(nothing_there(&interfaces, name));
    }
    let _lock = bpffs::lock()?;
    for folder in folders_here()? {
        let pinned = look(&folder);
        let matches = match &pinned {
            Ok(Pinned::To(_, index)) => match interface::of_link(&interfaces, *index) {
                Some(on) => on.name == name,
                // Moved to another network namespace.
                None => folder.interface == name,
            },
            Ok(Pinned::Gone(_) | Pinned::Leftover) | Err(_) => folder.interface == name,
        };
        if matches {
            return remove(&folder, pinned);
        }
    }
    Err(nothing_there(&interfaces, name))
}

fn nothing_there(interfaces: &[Interface], name: &str) -> Error {
    match interface::named(interfaces, name) {
        Ok(_) => Error::NotAttached(name.to_owned()),
        Err(error) => error,
    }
}

/// Detaches from all interfaces of this network namespace, and clears what is left of interfaces and
/// namespaces that are gone. Returns for each how it went.
pub fn detach_all() -> Result<Vec<(String, Result<()>)>> {
    requirements::privileges()?;
    if !bpffs::look()? {
        return Ok(Vec::new());
    }
    let _lock = bpffs::lock()?;
    let here = pins::namespace()?;
    let mut done = Vec::new();
    for folder in pins::folders()? {
        let pinned = look(&folder);
        let gone = matches!(pinned, Ok(Pinned::Gone(_) | Pinned::Leftover));
        if folder.namespace == here || gone {
            let removed = remove(&folder, pinned);
            done.push((folder.interface, removed));
        }
    }
    Ok(done)
}

/// The link's pin goes first: from then on the link lives only as long as this process holds it, and
/// whoever is killed here leaves an interface without a program, and pins that the next command
/// clears.
fn remove(folder: &Folder, pinned: Result<Pinned>) -> Result<()> {
    match pinned {
        Ok(Pinned::To(link, _) | Pinned::Gone(link)) => {
            // On trial there is no pin: a process holds the link.
            if link.try_until().is_none() {
                Link::unpin(&folder.path)?;
            }
            // Another process may hold the link too.
            link.detach()?;
        }
        // Somebody holds the link, and the program runs.
        Err(error @ (Error::TrialSilent { .. } | Error::TrialElsewhere(_))) => return Err(error),
        // What is no link of an XDP program holds none on an interface.
        Ok(Pinned::Leftover) | Err(_) => {}
    }
    pins::remove(&folder.path)
}
