//! Drops privileges that a process does not need any more. They cannot be regained.
//!
//! [`enter`] is for a process that talks to the network and has all its descriptors open. After it, there is no
//! capability, no file, no new socket and no other program. [`confine`] is for processes that read and change
//! attachments: the helper process ([`crate::helper`]), the agent of a fleet, `top` and `adapt`.

mod capabilities;
mod syscalls;

use std::{fs, io};

use caps::{Capability, CapsHashSet};
use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError, Scope};

pub use capabilities::{TO_CHANGE, TO_READ};

/// The newest Landlock version known here. The kernel applies the part that it supports (Linux 5.13 and later, if
/// enabled).
const NEWEST: ABI = ABI::V6;

/// A privilege cannot be dropped.
#[derive(Debug, thiserror::Error)]
#[error(
    "dropping privileges failed at {what} ({why}), so limiter stops: check whether the kernel, a container or the service manager forbids it"
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

/// The result of a function in this module.
pub type Result<T> = std::result::Result<T, Error>;

/// Drops everything: the user (root becomes `nobody`), all capabilities, all files by name, and all system calls
/// except those on open descriptors. Landlock is used if the kernel supports it. All other steps must succeed.
/// Fails if this process has several threads, because the others would keep their privileges, or if the kernel
/// refuses.
pub fn enter() -> Result<()> {
    only_thread()?;
    capabilities::drop_bounds()?;
    capabilities::leave_root()?;
    capabilities::set(&CapsHashSet::new())?;
    no_new_privileges()?;
    hide_all().map_err(|error| Error::new("Landlock", error))?;
    syscalls::allow_few()
}

/// Keeps the `needed` capabilities, [`TO_READ`] or [`TO_CHANGE`], and drops the rest.
/// Returns the errors of [`enter`].
pub fn confine(needed: &[Capability]) -> Result<()> {
    only_thread()?;
    capabilities::drop_bounds()?;
    capabilities::keep(needed)?;
    no_new_privileges()
}

/// Fails unless this process has a single thread. Capabilities and Landlock apply to the calling thread only.
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

/// Forbids everything that Landlock can forbid: files by name, TCP connections, and other processes.
fn hide_all() -> std::result::Result<(), RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .restrict_self()
        .map(drop)
}
