//! Drops privileges that a process does not need any more. They cannot be regained.
//!
//! [`enter`] is for a process that talks to the network and has all its descriptors open. After it, there is no
//! capability, no file, no new socket and no other program. [`renounce`] is for a process that goes on to connect or to
//! start programs, [`fetch`] for one that only connects. [`confine`] is for processes that read and change attachments: the helper process ([`crate::helper`]), the agent of a fleet, `top` and `adapt`.

#[cfg(not(target_arch = "s390x"))]
mod syscalls;
/// The library of the filter does not know this processor.
#[cfg(target_arch = "s390x")]
mod syscalls {
    pub fn allow_few() -> anyhow::Result<()> {
        anyhow::bail!("not available on s390x")
    }
}

use std::fs;

use anyhow::{Context, Result, anyhow};
use caps::{CapSet, Capability, CapsHashSet};
use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};

/// The newest Landlock version known here. The kernel applies the part that it supports (Linux 5.13 and later, if
/// enabled).
const NEWEST: ABI = ABI::V6;

/// User and group id of `nobody` and `nogroup` on every distribution: the kernel's overflow ids.
const UNPRIVILEGED: u32 = 65_534;

/// User and group id of a process that starts programs of others. `nobody` has processes of other services, which could
/// stop these programs, and the other way round. No distribution assigns this id, and systemd leaves it unused
/// (65520 to 65533, systemd.io/UIDS-GIDS).
const STRANGER: u32 = 65_533;

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

/// The error for a privilege that cannot be dropped. `error` has the step as its context.
fn failed(error: anyhow::Error) -> anyhow::Error {
    anyhow!(
        "dropping privileges failed at {error} ({}), so limiter stops: check whether the kernel, a container or the service manager forbids it",
        error.root_cause()
    )
}

/// Drops everything: the user (root becomes `nobody`), all capabilities, all files by name, and all system calls
/// except those on open descriptors. Landlock is used if the kernel supports it. All other steps must succeed.
/// Fails if this process has several threads, because the others would keep their privileges, or if the kernel
/// refuses.
pub fn enter() -> Result<()> {
    let steps = || {
        leave([UNPRIVILEGED; 2])?;
        hide_all().context("Landlock")?;
        syscalls::allow_few().context("the system call filter")
    };
    steps().map_err(failed)
}

/// Drops what [`renounce`] drops, and, with Landlock, all writing of files and other programs. It is for a process that
/// opens connections and reads public files.
/// Returns the errors of [`enter`].
pub fn fetch() -> Result<()> {
    let steps = || {
        leave([UNPRIVILEGED; 2])?;
        only_read().context("Landlock")
    };
    steps().map_err(failed)
}

/// Drops all capabilities, also for programs that this process starts. Root becomes the user and the group of `ids`, with
/// an id that nothing else has in place of root's.
/// Files, sockets and programs remain, as far as that user may use them.
/// Returns the errors of [`enter`].
pub fn renounce(ids: [u32; 2]) -> Result<()> {
    let ids = ids.map(|id| if id == 0 { STRANGER } else { id });
    leave(ids).map_err(failed)?;
    // Root without capabilities can still write root's files.
    match geteuid().is_root() {
        true => Err(failed(
            anyhow!("CAP_SETUID or CAP_SETGID is missing").context("changing the user"),
        )),
        false => Ok(()),
    }
}

fn leave(ids: [u32; 2]) -> Result<()> {
    only_thread()?;
    drop_bounds()?;
    leave_root(ids)?;
    hand_on_nothing()?;
    set(&CapsHashSet::new())?;
    no_new_privileges()
}

/// Keeps the `needed` capabilities, [`TO_READ`] or [`TO_CHANGE`], as far as this process has them, and drops the rest.
/// Returns the errors of [`enter`].
pub fn confine(needed: &[Capability]) -> Result<()> {
    let steps = || {
        only_thread()?;
        let kept = of_these(needed)?;
        drop_bounds()?;
        hand_on_nothing()?;
        set(&kept)?;
        no_new_privileges()
    };
    steps().map_err(failed)
}

/// Like [`confine`]. Programs that this process starts keep the same capabilities.
/// Returns the errors of [`enter`].
pub fn confine_with_children(needed: &[Capability]) -> Result<()> {
    let hand_on = |kept: &CapsHashSet| {
        caps::set(None, CapSet::Inheritable, kept)?;
        // Root's programs need no more. Those of others would start without capabilities.
        match geteuid().is_root() {
            true => Ok(()),
            false => caps::set(None, CapSet::Ambient, kept),
        }
    };
    let steps = || {
        only_thread()?;
        let kept = of_these(needed)?;
        // The kernel hands on nothing that is outside the bounding set at this moment.
        hand_on(&kept).context("capabilities of children")?;
        drop_bounds()?;
        set(&kept)?;
        no_new_privileges()
    };
    steps().map_err(failed)
}

/// The capabilities of these that this process has.
fn of_these(needed: &[Capability]) -> Result<CapsHashSet> {
    let own = caps::read(None, CapSet::Permitted).context("reading capabilities")?;
    let needed = needed.iter().copied().filter(|needed| own.contains(needed));
    // Without CAP_BPF, CAP_SYS_ADMIN is needed, which includes CAP_BPF.
    let mut kept: CapsHashSet = needed.collect();
    if own.contains(&Capability::CAP_SYS_ADMIN) && !kept.contains(&Capability::CAP_BPF) {
        kept.insert(Capability::CAP_SYS_ADMIN);
    }
    Ok(kept)
}

/// Fails unless this process has a single thread. Capabilities and Landlock apply to the calling thread only.
fn only_thread() -> Result<()> {
    let tasks = fs::read_dir("/proc/self/task").context("counting threads")?;
    match tasks.count() {
        1 => Ok(()),
        more => Err(anyhow!("{more} threads")).context("counting threads"),
    }
}

fn no_new_privileges() -> Result<()> {
    nix::sys::prctl::set_no_new_privs().context("no_new_privs")
}

/// Forbids everything that Landlock can forbid: files by name, TCP connections, and other processes.
fn hide_all() -> Result<(), RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .restrict_self()
        .map(drop)
}

/// Forbids everything about files but reading.
fn only_read() -> Result<()> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .create()?
        .add_rule(PathBeneath::new(PathFd::new("/")?, read))?
        .restrict_self()?;
    Ok(())
}

fn has(capability: Capability) -> Result<bool> {
    caps::has_cap(None, CapSet::Effective, capability).context("reading capabilities")
}

/// Empties the bounding set, if this process may (`CAP_SETPCAP`). Otherwise nothing is lost: a program that would gain
/// a capability cannot be started (`no_new_privs`).
fn drop_bounds() -> Result<()> {
    if !has(Capability::CAP_SETPCAP)? {
        return Ok(());
    }
    caps::clear(None, CapSet::Bounding).context("the bounding set")
}

/// Changes root's user and group, if this process may. Root can open root's files without any capability.
fn leave_root([user, group]: [u32; 2]) -> Result<()> {
    let may = has(Capability::CAP_SETUID)? && has(Capability::CAP_SETGID)?;
    if !geteuid().is_root() || !may {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    setgroups(&[])
        .and_then(|()| setresgid(group, group, group))
        .and_then(|()| setresuid(user, user, user))
        .context("changing the user")
}

/// Programs that this process starts get no capability.
fn hand_on_nothing() -> Result<()> {
    caps::clear(None, CapSet::Ambient)
        .and_then(|()| caps::clear(None, CapSet::Inheritable))
        .context("capabilities")
}

/// Drops all capabilities except `kept`, of this process.
fn set(kept: &CapsHashSet) -> Result<()> {
    caps::set(None, CapSet::Effective, kept)
        .and_then(|()| caps::set(None, CapSet::Permitted, kept))
        .context("capabilities")
}
