//! Words of a map, mapped into this process: read and written while the program works on them.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    io,
    ops::Deref,
    os::fd::{AsFd, AsRawFd},
    sync::atomic::AtomicU64,
};

use aya::maps::MapData;
use memmap2::{MmapOptions, MmapRaw};

/// The words of an array map that may be mapped (`BPF_F_MMAPABLE`).
#[derive(Debug)]
pub struct Words(MmapRaw);

impl Words {
    /// Maps the first `bytes` of a map. `bytes` must be a multiple of eight, and no more than the map has.
    pub fn map(map: &MapData, bytes: usize) -> io::Result<Self> {
        let fd = map.fd().as_fd().as_raw_fd();
        MmapOptions::new().len(bytes).map_raw(fd).map(Self)
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        let words = self.0.len() / size_of::<u64>();
        // SAFETY: the bytes are mapped for as long as `self` lives, aligned to a page, and accessed only by atomic
        // operations.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), words) }
    }
}
