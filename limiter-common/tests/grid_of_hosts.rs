//! Consecutive IPv6 hosts of consecutive networks spread evenly over the table.

use limiter_common::table::{
    Seed,
    key::{Address, KeyMask, SourceKey},
};

/// Arbitrary seeds.
const SEEDS: [[u64; 4]; 3] = [
    [
        0x2b7e_1516_28ae_d2a6,
        0xabf7_1588_09cf_4f3c,
        0x762e_7160_f38b_4da5,
        0x6a78_4d90_45d9_0b18,
    ],
    [
        0x243f_6a88_85a3_08d3,
        0x1319_8a2e_0370_7344,
        0xa409_3822_299f_31d0,
        0x082e_fa98_ec4e_6c89,
    ],
    [
        0x4528_21e6_38d0_1377,
        0xbe54_66cf_34e9_0c6c,
        0xc0ac_29b7_c97c_50dd,
        0x3f84_d5b5_b547_0917,
    ],
];

/// The host with these two bytes at these positions of its address: one in the network half, one in the host half.
fn host((in_network, network): (usize, u8), (in_host, host): (usize, u8)) -> SourceKey {
    let mut bytes = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1];
    bytes[in_network] = network;
    bytes[in_host] = host;
    let half = |half: usize| {
        let bytes = &bytes[half * 8..][..8];
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    };
    KeyMask::prefixes(32, 128).key(0, &Address::ipv6([half(0), half(1)]), 0)
}

/// A hash that adds the two halves would fail here: it gives equal hashes to as many hosts as there are networks.
#[test]
fn consecutive_hosts_of_consecutive_networks_spread_like_random() {
    const SETS: u32 = 1 << 13;
    let grid = || (0..64).flat_map(|network| (0..64).map(move |host| (network, host)));
    let bytes = || {
        (4..8)
            .rev()
            .flat_map(|network| (8..16).rev().map(move |host| (network, host)))
    };
    for ((in_network, in_host), words) in
        bytes().flat_map(|bytes| SEEDS.map(|words| (bytes, words)))
    {
        let seed = Seed::new(words);
        let mut fill = vec![0_u32; SETS as usize];
        for (network, number) in grid() {
            let tag = host((in_network, network), (in_host, number));
            fill[seed.home(&tag, SETS).set as usize] += 1;
        }
        // One source for every two sets. Random placement uses 3,223 sets and puts 5 or 6 sources into the fullest.
        let used = fill.iter().filter(|&&sources| sources > 0).count();
        let most = fill.iter().max().copied().unwrap_or_default();
        assert!(
            used > 2_900 && most <= 10,
            "bytes {in_network} and {in_host}, {words:x?}: {used} sets in use, {most} in one"
        );
    }
}
