//! On trial: an attachment that undoes itself unless it is kept in time.
//!
//! The link is what keeps the program on the interface, and it lives as long as somebody holds it.
//! Everything is pinned as usual but the link: a process of its own holds that ([`Holder`]) until the
//! time is up. However the process ends, the kernel closes its descriptor and takes the program off;
//! what is left then is pins without a link, which the next command clears. So no moment and no kind
//! of failure leaves the program on the interface for good.
//!
//! Other commands need the link too. The holder hands it to whoever may open the folder of pins,
//! which is who could open the link if it were pinned ([`ask`]). While it holds the link it has a lock
//! on the folder `trial` in there, which is seen from every network namespace; its socket is not.
//!
//! [`keep`] pins the link. Both that and the end happen under the lock of the attachment, and the end
//! looks for the pin first: at the last moment it is kept, or it is too late, and never half.

mod ask;
mod begin;
mod holder;
mod keep;
mod socket;

use std::{
    fs::{self, File},
    path::Path,
    time::Duration,
};

use crate::kernel::sys::folder::Identity;

pub use ask::{Held, ask};
pub use begin::{READY, begin};
pub use holder::Holder;
pub use keep::{Kept, keep};

/// The shortest and the longest trial.
pub const BOUNDS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);

/// The verb that makes a process a holder. It is not for people.
pub const VERB: &str = "hold";

/// The name of the folder among the pins that the holder of a trial has locked.
pub(super) const FOLDER: &str = "trial";

/// Name of the holder's socket, in the abstract namespace: it goes with the process, and leaves no
/// file. The inode keeps the holders of two attachments of one interface apart.
fn socket_name(folder: &Path, identity: Identity) -> String {
    format!(
        "limiter/{}/{}/{}",
        folder.parent().map(folder_name).unwrap_or_default(),
        folder_name(folder),
        identity.inode
    )
}

fn folder_name(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    name.to_string_lossy().into_owned()
}

/// The interface whose pins are in `folder`, for messages.
fn interface_of(folder: &Path) -> String {
    crate::kernel::state::pins::interface_of(folder).unwrap_or_else(|| folder_name(folder))
}

/// Whether a holder has its lock on the folder `trial`.
fn is_held(directory: &File) -> bool {
    match directory.try_lock_shared() {
        Err(fs::TryLockError::WouldBlock) => true,
        // Not by closing it: another process may have been given this descriptor.
        _ => {
            let _ = directory.unlock();
            false
        }
    }
}
