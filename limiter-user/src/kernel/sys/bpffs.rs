//! The file system that pins live in. It is found, mounted if missing, and refused if it would vanish together with
//! this process.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags},
    mount::{MsFlags, mount},
    unistd::{AccessFlags, faccessat},
};

use crate::kernel::{
    error::{Error, Result},
    sys::folder::Dir,
};

pub use crate::kernel::sys::folder::BPFFS;

/// The folder of all limiter's pins.
pub(in crate::kernel) fn own() -> PathBuf {
    Path::new(BPFFS).join("limiter")
}

/// Whether a bpffs is mounted at its usual path.
fn is_mounted() -> bool {
    Dir::root().is_ok_and(|root| root.is_some())
}

/// Whether there is a bpffs to look for pins in. Fails under `ip netns exec`, which mounts another `/sys`: no answer
/// there could be true.
pub fn look() -> Result<bool> {
    if let (false, Some(namespace)) = (same_as_init(), namespace_of_sys()) {
        return Err(Error::Bpffs(format!(
            "`ip netns exec` gives its command a separate /sys, which has no pins and loses new pins when the command ends: use `nsenter --net=/run/netns/{namespace} limiter …` instead"
        )));
    }
    Ok(is_mounted())
}

/// Whether there is a bpffs already. Fails if one mounted now might not outlive this process, or pins may not be
/// changed.
pub fn foresee() -> Result<bool> {
    let mounted = look()?;
    if !mounted && !shares_mounts_with_init() {
        return Err(Error::Bpffs(format!(
            "no bpffs is mounted at {BPFFS}, and this is not the mount namespace of process 1, so a bpffs mounted now might vanish: mount one that stays (`mount -t bpf -o mode=0700 bpf {BPFFS}`)"
        )));
    }
    if mounted {
        may_write()?;
    }
    Ok(mounted)
}

/// Fails if this process may not change pins. In another user's bpffs, `limiter` may still belong to this user.
fn may_write() -> Result<()> {
    let own = own();
    let may = |path: &Path| {
        let wanted = AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK;
        faccessat(AT_FDCWD, path, wanted, AtFlags::AT_EACCESS)
    };
    let (path, result) = match may(&own) {
        Err(Errno::ENOENT) => (PathBuf::from(BPFFS), may(Path::new(BPFFS))),
        result => (own, result),
    };
    result.map_err(|error| Error::path("writing to", path, error.into()))
}

/// Makes sure that a bpffs exists that outlives this process: mounts one if there is none.
pub fn ensure() -> Result<()> {
    if foresee()? {
        return Ok(());
    }
    mount(Some("bpf"), BPFFS, Some("bpf"), MsFlags::empty(), Some("mode=0700")).map_err(|error| {
        Error::Bpffs(format!(
            "no bpffs is mounted at {BPFFS}, and mounting one failed ({}): `mount -t bpf -o mode=0700 bpf {BPFFS}`",
            error.desc()
        ))
    })
}

/// Inode of the first mount namespace (`MNT_NS_INIT_INO`, include/uapi/linux/nsfs.h, Linux 6.18).
const INITIAL_INODE: u64 = 0xefff_fff8;

/// Whether this process and process 1 have the same mounts. If process 1 is invisible (`CAP_SYS_PTRACE`), only the
/// first namespace counts as permanent.
fn shares_mounts_with_init() -> bool {
    let inode = |process: &str| {
        fs::metadata(format!("/proc/{process}/ns/mnt"))
            .ok()
            .map(|metadata| metadata.ino())
    };
    match (inode("self"), inode("1")) {
        (Some(own), Some(init)) => own == init,
        (own, None) => own == Some(INITIAL_INODE),
        (None, _) => false,
    }
}

/// Whether process 1 sees the same bpffs here.
fn same_as_init() -> bool {
    let device = |path: &str| fs::metadata(path).ok().map(|metadata| metadata.dev());
    is_mounted() && device(BPFFS) == device(&format!("/proc/1/root{BPFFS}"))
}

/// The network namespace that `ip netns exec` has mounted a `/sys` for. It names the namespace as the source of the
/// mount, while other programs write `sysfs`.
fn namespace_of_sys() -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let source = source_of_sys(&mounts)?;
    Path::new("/run/netns")
        .join(source)
        .exists()
        .then(|| source.to_owned())
}

/// The source of the topmost mount at `/sys`: see proc(5) on mountinfo.
fn source_of_sys(mountinfo: &str) -> Option<&str> {
    let mount = mountinfo
        .lines()
        .rfind(|line| line.split(' ').nth(4) == Some("/sys"))?;
    mount.split_once(" - ")?.1.split(' ').nth(1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_source_of_sys_is_read_from_mountinfo() {
        let plain = "23 27 0:22 / /sys rw,relatime shared:7 - sysfs sysfs rw\n42 23 0:39 / /sys/fs/bpf rw - bpf bpf rw\n";
        assert_eq!(super::source_of_sys(plain), Some("sysfs"));
        let in_namespace = format!("{plain}49 46 0:40 / /sys rw,relatime - sysfs blue rw\n");
        assert_eq!(super::source_of_sys(&in_namespace), Some("blue"));
        assert_eq!(super::source_of_sys(""), None);
    }
}
