//! Kernel memory of maps.

use std::{
    fs,
    os::fd::{AsFd, AsRawFd},
};

use aya::maps::MapData;

/// Bytes of a node of a trie without key data and value: two pointers, the length of its prefix, and its flags (`struct
/// lpm_trie_node` in kernel/bpf/lpm_trie.c, Linux 6.14 and later).
const NODE: u64 = 24;
/// Bytes that the allocator of maps adds to each element (`LLIST_NODE_SZ` in kernel/bpf/memalloc.c).
const LINK: u64 = 8;
/// Bytes of the length in front of a trie's key.
const LENGTH: u64 = 4;

/// Bytes of kernel memory that all these maps hold, as the kernel accounts for it (`memlock` in fdinfo). That is too little
/// for tries: see [`of_trie`].
pub fn of_maps<'a>(maps: impl IntoIterator<Item = &'a MapData>) -> u64 {
    let of_map = |map: &MapData| field(&fdinfo(map), "memlock").unwrap_or(0);
    maps.into_iter().map(of_map).sum()
}

/// Bytes of kernel memory that a trie with this many prefixes holds at most. The kernel's `memlock` shows less than half: it
/// counts neither the nodes that it makes where prefixes part, nor the bytes that its allocator leaves unused.
///
/// Of `n` prefixes that are not within each other, `n - 1` such nodes are made, each of the size of one with a value. In a
/// memory cgroup, each node takes 8 bytes more.
pub fn of_trie(map: &MapData, prefixes: u64) -> u64 {
    let fdinfo = fdinfo(map);
    let [key, value] = ["key_size", "value_size"].map(|name| field(&fdinfo, name).unwrap_or(0));
    nodes(prefixes) * allocated(NODE + key.saturating_sub(LENGTH) + value + LINK)
}

fn nodes(prefixes: u64) -> u64 {
    (2 * prefixes).saturating_sub(1)
}

/// The size that the kernel's allocator gives to an object: a power of two, or 96 or 192.
fn allocated(size: u64) -> u64 {
    match size {
        65..=96 => 96,
        129..=192 => 192,
        _ => size.next_power_of_two(),
    }
}

fn fdinfo(map: &MapData) -> String {
    let path = format!("/proc/self/fdinfo/{}", map.fd().as_fd().as_raw_fd());
    fs::read_to_string(path).unwrap_or_default()
}

fn field(fdinfo: &str, name: &str) -> Option<u64> {
    let mut fields = fdinfo.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| *field == name)?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_fdinfo() {
        let text = "pos:\t0\nmap_type:\t11\nkey_size:\t8\nmemlock:\t10486784\n";
        assert_eq!(field(text, "memlock"), Some(10_486_784));
        assert_eq!(field(text, "key_size"), Some(8));
        assert_eq!(field("pos:\t0\n", "memlock"), None);
    }

    /// Sizes of `/proc/slabinfo` on Linux 6.18.
    #[test]
    fn nodes_have_the_sizes_of_the_kernels_allocator() {
        for (data, value, size) in [(4, 12, 64), (16, 12, 64), (16, 112, 192)] {
            assert_eq!(allocated(NODE + data + value + LINK), size);
        }
        assert_eq!([0, 1, 20_000].map(nodes), [0, 1, 39_999]);
    }
}
