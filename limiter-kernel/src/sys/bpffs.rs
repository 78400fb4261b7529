//! The file system that pins live in. It is found, mounted if missing, and refused if it would vanish together with
//! this process.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{AT_FDCWD, AtFlags},
    mount::{MsFlags, mount},
    unistd::{AccessFlags, faccessat},
};

use crate::{
    Error, Failed, Result,
    sys::{Dir, lock::RETRY},
};

pub use crate::sys::folder::BPFFS;

/// The folder of all limiter's pins.
pub(crate) fn own() -> PathBuf {
    Path::new(BPFFS).join("limiter")
}

/// Returns true if there is a bpffs to look for pins in. Fails if there is none, and one mounted now might not outlive
/// this process.
pub fn look() -> Result<bool> {
    let mounted = Dir::root().is_ok_and(|root| root.is_some());
    if mounted || shares_mounts_with_init() {
        return Ok(mounted);
    }
    Err(Error::Bpffs(format!(
        "no bpffs is mounted at {BPFFS}, and this is not the mount namespace of process 1, so there are no pins, and new ones might vanish: instead of `ip netns exec NAME` use `nsenter --net=/run/netns/NAME limiter …`; elsewhere mount a bpffs that stays (`mount -t bpf -o mode=0700 bpf {BPFFS}`)"
    )))
}

/// Returns true if there is a bpffs already. Fails if one mounted now might not outlive this process, or pins may not
/// be changed.
pub fn foresee() -> Result<bool> {
    if !look()? {
        return Ok(false);
    }
    // In another user's bpffs, `limiter` may still belong to this user.
    let path = Some(own()).filter(|own| own.exists());
    let path = path.unwrap_or_else(|| BPFFS.into());
    let wanted = AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK;
    faccessat(AT_FDCWD, &path, wanted, AtFlags::AT_EACCESS).failed_at("writing to", path)?;
    Ok(true)
}

/// Makes sure that a bpffs exists that outlives this process: mounts one if there is none.
pub fn ensure() -> Result<()> {
    if foresee()? {
        return Ok(());
    }
    // Of two commands at once, the second would hide the pins of the first by another mount.
    let _lock = lock_mount_point();
    if look()? {
        return Ok(());
    }
    mount(Some("bpf"), BPFFS, Some("bpf"), MsFlags::empty(), Some("mode=0700")).map_err(|error| {
        Error::Bpffs(format!(
            "no bpffs is mounted at {BPFFS}, and mounting one failed ({}): `mount -t bpf -o mode=0700 bpf {BPFFS}`",
            error.desc()
        ))
    })
}

/// Locks the folder that bpffs is mounted on. Every user could hold this lock for ever, so the command goes on without it
/// after a second: a mount takes much less.
fn lock_mount_point() -> Option<File> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let (folder, start) = (File::open(BPFFS).ok()?, Instant::now());
    while folder.try_lock().is_err() {
        if start.elapsed() > PATIENCE {
            return None;
        }
        thread::sleep(RETRY);
    }
    Some(folder)
}

/// Inode of the first mount namespace (`MNT_NS_INIT_INO`, include/uapi/linux/nsfs.h, Linux 6.18).
const INITIAL_INODE: u64 = 0xefff_fff8;

/// True if this process and process 1 have the same mounts.
fn shares_mounts_with_init() -> bool {
    shared_with_init("mnt", |own| own == INITIAL_INODE).unwrap_or(false)
}

/// True if this thread and process 1 are in one namespace of a `kind`. If process 1 is invisible (`CAP_SYS_PTRACE`),
/// `is_first` decides by the inode of this thread's namespace.
pub(crate) fn shared_with_init(kind: &str, is_first: impl Fn(u64) -> bool) -> io::Result<bool> {
    let inode = |process: &str| fs::metadata(format!("/proc/{process}/ns/{kind}")).map(|m| m.ino());
    // Threads have namespaces of their own in tests, so this thread's is read.
    let own = inode("thread-self")?;
    Ok(inode("1").map_or_else(|_| is_first(own), |of_init| of_init == own))
}
