//! Finds BPF objects in the kernel by id, to check that none is left.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{collections::BTreeSet, fs, os::fd::AsRawFd, path::Path, thread, time::Duration};

use limiter_kernel::sys::bpf;
use nix::unistd::Pid;

/// A BPF object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A map's id.
    Map(u32),
    /// A program's id.
    Program(u32),
    /// A link's id.
    Link(u32),
}

impl Object {
    /// The object of a descriptor, from its fdinfo in `/proc`.
    fn of(fdinfo: &str) -> Option<Self> {
        let find = |field: &str| {
            let value = fdinfo.lines().find_map(|line| line.strip_prefix(field))?;
            value.trim().parse().ok()
        };
        // A link's fdinfo has its program's id as well.
        find("link_id:")
            .map(Self::Link)
            .or_else(|| find("map_id:").map(Self::Map))
            .or_else(|| find("prog_id:").map(Self::Program))
    }

    /// Objects that a process holds by descriptors.
    pub fn all_of(process: Pid) -> BTreeSet<Self> {
        let Ok(entries) = fs::read_dir(format!("/proc/{process}/fdinfo")) else {
            return BTreeSet::new();
        };
        let infos = entries
            .flatten()
            .filter_map(|entry| fs::read_to_string(entry.path()).ok());
        infos.filter_map(|info| Self::of(&info)).collect()
    }

    /// Objects that are pinned in a folder, and in folders below it.
    pub fn pinned_in(folder: &Path) -> BTreeSet<Self> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                found.extend(Self::pinned_in(&path));
                continue;
            }
            if let Ok(fd) = bpf::open_pin(&path) {
                let info = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
                found.extend(Self::of(&fs::read_to_string(info).unwrap()));
            }
        }
        found
    }

    /// True if the object still exists in the kernel.
    ///
    /// This check does not open the object. A map of programs that is opened while it is being freed stays forever:
    /// each time its last user goes, the kernel takes a reference for the work that clears the map, but drops only one
    /// of these references if that work is still pending (`prog_array_map_clear`, kernel/bpf/arraymap.c, Linux 6.18).
    pub fn exists(self) -> bool {
        let (next_id, id) = match self {
            Self::Program(id) => (11, id),
            Self::Map(id) => (12, id),
            Self::Link(id) => (31, id),
        };
        // Contains the id to start after, and then the next id.
        let mut attributes = [id - 1, 0];
        // SAFETY: the attributes are live, and of the passed size.
        let found = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                next_id,
                attributes.as_mut_ptr(),
                size_of_val(&attributes),
            )
        };
        found == 0 && attributes[1] == id
    }

    /// Processes that hold the object by a descriptor.
    fn holders(self) -> Vec<Pid> {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.map(Pid::from_raw)
            .filter(|process| Self::all_of(*process).contains(&self))
            .collect()
    }
}

/// The objects that the kernel does not release within several grace periods, each with the processes that hold it.
/// The length of a grace period depends on the load.
pub fn not_released<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Vec<(Object, Vec<Pid>)> {
    const MOST: usize = 3_000;
    let mut left: Vec<_> = objects.into_iter().copied().collect();
    for _ in 0..MOST {
        left.retain(|object| object.exists());
        if left.is_empty() {
            break;
        }
        grace_period();
        thread::sleep(Duration::from_millis(10));
    }
    let held = left.into_iter().map(|object| (object, object.holders()));
    held.collect()
}

/// Panics unless the kernel releases `objects`.
pub fn expect_gone<'a>(objects: impl IntoIterator<Item = &'a Object>) {
    let left = not_released(objects);
    assert!(left.is_empty(), "still there, held by processes: {left:?}");
}

/// Waits for a grace period of all processors. Does nothing on kernels with isolated processors (`nohz_full`).
fn grace_period() {
    /// `MEMBARRIER_CMD_GLOBAL`, include/uapi/linux/membarrier.h: waits for a grace period.
    const GLOBAL: libc::c_int = 1;
    // SAFETY: the call takes no pointer.
    unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
}
