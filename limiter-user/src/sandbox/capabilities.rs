//! Capabilities, and the user.

use caps::{CapSet, Capability, CapsHashSet};
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};

use super::{Error, Result};

/// User and group id of `nobody` and `nogroup` on every distribution: the kernel's overflow ids.
const UNPRIVILEGED: u32 = 65_534;

/// The capabilities to read attachments. `CAP_SYS_PTRACE`: to compare namespaces with those of process 1.
/// `CAP_DAC_OVERRIDE`: root needs it to open the pins of a user without privileges.
pub const TO_READ: &[Capability] = &[
    Capability::CAP_BPF,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_DAC_OVERRIDE,
];

/// The capabilities to read and change attachments.
pub const TO_CHANGE: &[Capability] = &[
    Capability::CAP_BPF,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_DAC_OVERRIDE,
];

fn has(capability: Capability) -> Result<bool> {
    caps::has_cap(None, CapSet::Effective, capability)
        .map_err(|error| Error::new("reading capabilities", error))
}

/// Empties the bounding set, if this process may (`CAP_SETPCAP`). Otherwise nothing is lost: a program that would gain
/// a capability cannot be started (`no_new_privs`).
pub fn drop_bounds() -> Result<()> {
    if !has(Capability::CAP_SETPCAP)? {
        return Ok(());
    }
    caps::clear(None, CapSet::Bounding).map_err(|error| Error::new("the bounding set", error))
}

/// Changes the user to `nobody`, if this process may. Root can open root's files without any capability.
pub fn leave_root() -> Result<()> {
    let may = has(Capability::CAP_SETUID)? && has(Capability::CAP_SETGID)?;
    if !geteuid().is_root() || !may {
        return Ok(());
    }
    let failed = |error: nix::Error| Error::new("changing the user", error);
    let (user, group) = (Uid::from_raw(UNPRIVILEGED), Gid::from_raw(UNPRIVILEGED));
    setgroups(&[]).map_err(failed)?;
    setresgid(group, group, group).map_err(failed)?;
    setresuid(user, user, user).map_err(failed)
}

/// Drops all capabilities except the needed ones. Gains none.
pub fn keep(needed: &[Capability]) -> Result<()> {
    let own = caps::read(None, CapSet::Permitted)
        .map_err(|error| Error::new("reading capabilities", error))?;
    let needed = needed.iter().copied().filter(|needed| own.contains(needed));
    // Without CAP_BPF, CAP_SYS_ADMIN is needed, which includes CAP_BPF.
    let mut kept: CapsHashSet = needed.collect();
    if own.contains(&Capability::CAP_SYS_ADMIN) && !kept.contains(&Capability::CAP_BPF) {
        kept.insert(Capability::CAP_SYS_ADMIN);
    }
    set(&kept)
}

/// Drops all capabilities except `kept`.
pub fn set(kept: &CapsHashSet) -> Result<()> {
    let failed = |error| Error::new("capabilities", error);
    caps::clear(None, CapSet::Ambient).map_err(failed)?;
    caps::set(None, CapSet::Effective, kept).map_err(failed)?;
    caps::set(None, CapSet::Permitted, kept).map_err(failed)?;
    caps::clear(None, CapSet::Inheritable).map_err(failed)
}
