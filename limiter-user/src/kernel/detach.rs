//! Detaching: link, then pins, then nothing is left.

use super::{
    attachment::{Pinned, folders_here, look},
    bpffs,
    error::{Error, Result},
    interface,
    link::Link,
    pins::{self, Folder},
    requirements,
};

/// Detaches from the interface called `name`, or clears what is left of an attachment of that name.
pub async fn detach(name: &str) -> Result<()> {
    requirements::privileges()?;
    if !bpffs::is_mounted() {
        return Err(Error::NotAttached(name.to_owned()));
    }
    let _lock = bpffs::lock()?;
    let interfaces = interface::all().await?;
    for folder in folders_here()? {
        let matches = match look(&folder)? {
            Pinned::To(_, index) => match interface::of_link(&interfaces, index) {
                Some(on) => on.name == name,
                // Moved to another network namespace.
                None => folder.interface == name,
            },
            Pinned::Gone(_) | Pinned::Leftover => folder.interface == name,
        };
        if matches {
            return remove(&folder);
        }
    }
    Err(
        if interfaces.iter().any(|interface| interface.name == name) {
            Error::NotAttached(name.to_owned())
        } else {
            Error::NoInterface(name.to_owned())
        },
    )
}

/// Detaches from all interfaces of this network namespace, and clears what is left of interfaces and
/// namespaces that are gone. Returns the names.
pub async fn detach_all() -> Result<Vec<String>> {
    requirements::privileges()?;
    if !bpffs::is_mounted() {
        return Ok(Vec::new());
    }
    let _lock = bpffs::lock()?;
    let here = pins::namespace()?;
    let mut detached = Vec::new();
    for folder in pins::folders()? {
        let gone = !matches!(look(&folder)?, Pinned::To(..));
        if folder.namespace == here || gone {
            remove(&folder)?;
            detached.push(folder.interface);
        }
    }
    Ok(detached)
}

/// The link's pin goes first: from then on the link lives only as long as this process holds it, and
/// whoever is killed here leaves an interface without a program, and pins that the next command
/// clears.
fn remove(folder: &Folder) -> Result<()> {
    match look(folder)? {
        Pinned::To(link, _) | Pinned::Gone(link) => {
            Link::unpin(&folder.path)?;
            // Another process may hold the link too.
            link.detach()?;
        }
        Pinned::Leftover => {}
    }
    pins::remove(&folder.path)
}
