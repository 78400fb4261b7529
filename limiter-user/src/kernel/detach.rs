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
        let matches = match look(&folder) {
            Ok(Pinned::To(_, index)) => match interface::of_link(&interfaces, index) {
                Some(on) => on.name == name,
                // Moved to another network namespace.
                None => folder.interface == name,
            },
            Ok(Pinned::Gone(_) | Pinned::Leftover) | Err(_) => folder.interface == name,
        };
        if matches {
            return remove(&folder);
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
        let gone = matches!(look(&folder), Ok(Pinned::Gone(_) | Pinned::Leftover));
        if folder.namespace == here || gone {
            let removed = remove(&folder);
            done.push((folder.interface, removed));
        }
    }
    Ok(done)
}

/// The link's pin goes first: from then on the link lives only as long as this process holds it, and
/// whoever is killed here leaves an interface without a program, and pins that the next command
/// clears.
fn remove(folder: &Folder) -> Result<()> {
    // What is no link of an XDP program holds none on an interface.
    if let Ok(Pinned::To(link, _) | Pinned::Gone(link)) = look(folder) {
        Link::unpin(&folder.path)?;
        // Another process may hold the link too.
        link.detach()?;
    }
    pins::remove(&folder.path)
}
