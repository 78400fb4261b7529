//! BPF objects in the kernel, by their ids: whether any is left.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    collections::BTreeSet,
    fs,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
};

use nix::unistd::Pid;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A map, by its id.
    Map(u32),
    /// A program.
    Program(u32),
    /// A link.
    Link(u32),
}

/// One `bpf(2)` call that gives a descriptor. The attributes are those of `BPF_*_GET_FD_BY_ID` and `BPF_OBJ_GET`:
/// eight bytes that matter.
fn open(command: libc::c_int, mut attributes: [u64; 2]) -> Option<OwnedFd> {
    // SAFETY: the attributes are live, and of the size that is passed; where they hold a pointer, it is to a
    // string that outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_mut_ptr(),
            size_of_val(&attributes),
        )
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel has just made it for this process.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Object {
    /// What is behind a descriptor, from what the kernel says of it in `/proc`.
    fn of(fdinfo: &str) -> Option<Self> {
        let find = |field: &str| {
            let value = fdinfo.lines().find_map(|line| line.strip_prefix(field))?;
            value.trim().parse().ok()
        };
        // That of a link has its program's id as well.
        find("link_id:")
            .map(Self::Link)
            .or_else(|| find("map_id:").map(Self::Map))
            .or_else(|| find("prog_id:").map(Self::Program))
    }

    /// Those that a process holds by descriptors.
    #[must_use]
    pub fn all_of(process: Pid) -> BTreeSet<Self> {
        let Ok(entries) = fs::read_dir(format!("/proc/{process}/fdinfo")) else {
            return BTreeSet::new();
        };
        let infos = entries
            .flatten()
            .filter_map(|entry| fs::read_to_string(entry.path()).ok());
        infos.filter_map(|info| Self::of(&info)).collect()
    }

    /// Those that are pinned in a folder, and in folders below.
    #[must_use]
    pub fn pinned_in(folder: &Path) -> BTreeSet<Self> {
        const OBJ_GET: libc::c_int = 7;
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                found.extend(Self::pinned_in(&path));
                continue;
            }
            let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
            if let Some(fd) = open(OBJ_GET, [name.as_ptr().addr() as u64, 0]) {
                let info = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
                found.extend(Self::of(&fs::read_to_string(info).unwrap()));
            }
        }
        found
    }

    /// Whether the kernel still has it.
    #[must_use]
    pub fn exists(self) -> bool {
        let (command, id) = match self {
            Self::Program(id) => (13, id),
            Self::Map(id) => (14, id),
            Self::Link(id) => (30, id),
        };
        open(command, [id.into(), 0]).is_some()
    }
}
