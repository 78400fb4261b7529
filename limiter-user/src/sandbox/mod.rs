//! Giving up what a process does not need any more, for good.
//!
//! [`enter`] is for a process that talks to the network, and has every descriptor that it will ever need: after it there
//! is no capability, no file, no new socket and no other program. [`confine`] is for processes that read and change
//! attachments: the one that reads the kernel for the former ([`crate::helper`]), `top`, and the agent of a fleet.

mod capabilities;
mod files;
mod syscalls;

use std::{fs, io};

/// Something that cannot be given up.
#[derive(Debug, thiserror::Error)]
#[error(
    "giving up privileges failed at {what} ({why}): nothing goes on with more than it needs; this kernel and what started limiter must allow it"
)]
pub struct Error {
    what: &'static str,
    why: String,
}

impl Error {
    fn new(what: &'static str, why: impl ToString) -> Self {
        Self {
            what,
            why: why.to_string(),
        }
    }
}

/// Result of everything in this module.
pub type Result<T> = std::result::Result<T, Error>;

/// Gives up everything: the user (`nobody`, where this is root), all capabilities, all files by name, and all system
/// calls but those on descriptors that are open. Landlock is used where the kernel has it; all else must succeed.
///
/// # Errors
///
/// Where this process has several threads, which would keep what only this one gives up, or the kernel refuses.
pub fn enter() -> Result<()> {
    only_thread()?;
    capabilities::drop_bounds()?;
    capabilities::leave_root()?;
    capabilities::clear()?;
    no_new_privileges()?;
    files::hide_all()?;
    syscalls::allow_few()
}

/// Keeps the capabilities that opening and changing attachments needs, and gives up the rest; starts no other program.
///
/// # Errors
///
/// As those of [`enter`].
pub fn confine() -> Result<()> {
    only_thread()?;
    capabilities::drop_bounds()?;
    capabilities::keep_needed()?;
    no_new_privileges()?;
    syscalls::refuse_dangerous_but_bpf()
}

/// Capabilities and Landlock hold for the thread that asks for them.
fn only_thread() -> Result<()> {
    let failed = |error: io::Error| Error::new("counting threads", error);
    let threads = fs::read_dir("/proc/self/task").map_err(failed)?.count();
    match threads {
        1 => Ok(()),
        more => Err(Error::new("counting threads", format!("{more} threads"))),
    }
}

fn no_new_privileges() -> Result<()> {
    nix::sys::prctl::set_no_new_privs().map_err(|error| Error::new("no_new_privs", error))
}
