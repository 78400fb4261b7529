//! Kernel memory of maps.

use std::{
    fs,
    os::fd::{AsFd, AsRawFd},
};

use aya::maps::MapData;

/// Bytes of kernel memory that all these maps hold, as the kernel accounts for it (`memlock` in fdinfo).
pub fn of_maps<'a>(maps: impl IntoIterator<Item = &'a MapData>) -> u64 {
    let of_map = |map: &MapData| {
        let path = format!("/proc/self/fdinfo/{}", map.fd().as_fd().as_raw_fd());
        memlock(&fs::read_to_string(path).unwrap_or_default()).unwrap_or(0)
    };
    maps.into_iter().map(of_map).sum()
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
