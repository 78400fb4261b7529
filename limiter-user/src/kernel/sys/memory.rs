//! How much kernel memory a map takes.

use std::{
    fs,
    os::fd::{AsFd, BorrowedFd},
};

use aya::maps::MapData;

/// Bytes of kernel memory that all these maps hold.
pub fn of_maps(maps: &[&MapData]) -> u64 {
    maps.iter().map(|map| of_map(map.fd().as_fd())).sum()
}

/// Bytes of kernel memory that a map holds, as the kernel accounts for it (`memlock` in fdinfo).
pub fn of_map(map: BorrowedFd<'_>) -> u64 {
    let info = fs::read_to_string(crate::kernel::sys::bpf::fdinfo_path(map)).unwrap_or_default();
    memlock(&info).unwrap_or(0)
}

fn memlock(fdinfo: &str) -> Option<u64> {
    fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("memlock:"))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_is_read_from_fdinfo() {
        assert_eq!(
            super::memlock("pos:\t0\nmap_type:\t1\nmemlock:\t10486784\n"),
            Some(10_486_784)
        );
        assert_eq!(super::memlock("pos:\t0\n"), None);
    }
}
