//! Words of a map, mapped into this process: read and written while the program works on them.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{num::NonZeroUsize, ops::Deref, ptr::NonNull, sync::atomic::AtomicU64};

use aya::maps::MapData;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// The words of an array map that may be mapped (`BPF_F_MMAPABLE`).
#[derive(Debug)]
pub struct Words {
    start: NonNull<AtomicU64>,
    bytes: NonZeroUsize,
}

// SAFETY: the memory is the kernel's, and accessed only by atomic operations.
unsafe impl Send for Words {}
// SAFETY: the memory is the kernel's, and accessed only by atomic operations.
unsafe impl Sync for Words {}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: `map` has mapped this memory, and no borrow of it is left.
        let _ = unsafe { munmap(self.start.cast(), self.bytes.get()) };
    }
}

impl Words {
    /// Maps the first `bytes` of a map. `bytes` must be a multiple of eight, and no more than the map has.
    pub fn map(map: &MapData, bytes: usize) -> nix::Result<Self> {
        let bytes = NonZeroUsize::new(bytes).ok_or(nix::Error::EINVAL)?;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            mmap(
                None,
                bytes,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                map.fd(),
                0,
            )
        };
        Ok(Self {
            start: start?.cast(),
            bytes,
        })
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `bytes` are mapped for as long as `self` lives, and aligned to a page.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr(), self.bytes.get() / size_of::<u64>())
        }
    }
}
