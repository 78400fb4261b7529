//! The index gives each address the lists of its longest prefix, and gives all prefixes back.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    net::{Ipv4Addr, Ipv6Addr},
};

use fastrand::Rng;

use super::*;
use crate::{Lists, TierBits};

/// Words in memory.
struct Memory(Vec<u64>);

impl Array for Memory {
    fn word(&self, number: u32) -> Option<u64> {
        self.0.get(number as usize).copied()
    }
}

fn index(prefixes: &BTreeMap<IpNet, Listed>) -> Memory {
    let (memory, index) = words(prefixes).unwrap();
    let memory = Memory(memory);
    assert_eq!(Index::read(&memory), Some(index));
    memory
}

/// The lists of the longest prefix around an address, as a trie finds them.
fn longest(prefixes: &BTreeMap<IpNet, Listed>, address: IpAddr) -> Listed {
    let around = |length| IpNet::new(address, length).unwrap().trunc();
    let lengths = (0..=IpNet::from(address).prefix_len()).rev();
    let mut found = lengths.filter_map(|length| prefixes.get(&around(length)));
    let listed = found.next().copied().unwrap_or_default();
    Listed { own: 0, ..listed }
}

/// The first and last addresses of all prefixes, and those beside them.
fn edges(prefixes: &BTreeMap<IpNet, Listed>) -> Vec<IpAddr> {
    let mut edges = Vec::new();
    for prefix in prefixes.keys() {
        match prefix {
            IpNet::V4(net) => {
                for edge in [net.network(), net.broadcast()].map(u32::from) {
                    let near = [edge.wrapping_sub(1), edge, edge.wrapping_add(1)];
                    edges.extend(near.map(|edge| IpAddr::from(Ipv4Addr::from(edge))));
                }
            }
            IpNet::V6(net) => {
                for edge in [net.network(), net.broadcast()].map(u128::from) {
                    let near = [edge.wrapping_sub(1), edge, edge.wrapping_add(1)];
                    edges.extend(near.map(|edge| IpAddr::from(Ipv6Addr::from(edge))));
                }
            }
        }
    }
    edges
}

fn check(prefixes: &BTreeMap<IpNet, Listed>, more: impl IntoIterator<Item = IpAddr>) {
    let index = index(prefixes);
    for address in edges(prefixes).into_iter().chain(more) {
        let (found, wanted) = (listed(&index, address), longest(prefixes, address));
        assert_eq!(found, Some(wanted), "{address} in {prefixes:?}");
    }
    let mut own: Vec<_> = super::prefixes(&index).unwrap();
    own.sort_unstable();
    let wanted = prefixes
        .iter()
        .map(|(prefix, listed)| (*prefix, listed.own));
    assert!(own.into_iter().eq(wanted), "{prefixes:?}");
}

/// A prefix that is near others, often within them: few different bits, and all lengths.
fn draw(rng: &mut Rng, is_ipv6: bool) -> IpNet {
    let mut word = || rng.u128(..) & rng.u128(..) & rng.u128(..) & rng.u128(..);
    let (bits, length) = (word(), word());
    let net = if is_ipv6 {
        let length = *rng
            .choice(&[128, 128, 64, 65, 63, 48, length as u8 % 129])
            .unwrap();
        IpNet::new(Ipv6Addr::from(bits).into(), length)
    } else {
        let length = *rng.choice(&[32, 32, 24, length as u8 % 33]).unwrap();
        IpNet::new(Ipv4Addr::from(bits as u32).into(), length)
    };
    net.unwrap().trunc()
}

fn random_lists(rng: &mut Rng) -> Lists {
    let mut lists = Lists::default();
    let most = *rng.choice(&[0, 1, 2, 10, 100]).unwrap();
    for list in [&mut lists.allow, &mut lists.deny] {
        list.extend((0..rng.usize(0..=most)).map(|_| draw(rng, false)));
        list.extend((0..rng.usize(0..=most)).map(|_| draw(rng, true)));
    }
    lists
}

#[test]
fn longest_prefix_decides_at_the_edges_of_all_prefixes() {
    let mut rng = Rng::with_seed(57);
    for _ in 0..400 {
        let prefixes = random_lists(&mut rng).compile(&TierBits::default());
        let ipv4: Vec<_> = (0..20)
            .map(|_| Ipv4Addr::from(rng.u32(..)).into())
            .collect();
        let ipv6: Vec<_> = (0..20)
            .map(|_| Ipv6Addr::from(rng.u128(..)).into())
            .collect();
        check(&prefixes, ipv4.into_iter().chain(ipv6));
    }
}

#[test]
fn both_ends_of_the_address_space_are_found() {
    for prefixes in [
        &["0.0.0.0/0", "::/0"][..],
        &["0.0.0.0/32", "::/128"],
        &[
            "255.255.255.255/32",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
        ],
        &["255.255.255.254/32", "ffff:ffff:ffff:ffff::/64"],
        &[
            "0.0.0.0/0",
            "255.255.255.255/32",
            "::/0",
            "ffff:ffff:ffff:ffff::/65",
        ],
        &["128.0.0.0/1", "8000::/1", "8000::/64", "8000::1/128"],
        &[
            "2001:db8::1/128",
            "2001:db8:0:1::1/128",
            "2001:db8:0:1::/64",
        ],
    ] {
        let prefixes = prefixes.iter().map(|text| text.parse().unwrap());
        let allow = Lists {
            allow: prefixes.collect(),
            ..Lists::default()
        };
        check(&allow.compile(&TierBits::default()), []);
    }
}

/// Addresses with gaps cost two ranges each, beside their prefix.
#[test]
fn words_of_an_index_stay_within_their_bound() {
    let many = 100_000;
    let ipv4 = |i: u32| IpNet::from(IpAddr::from(Ipv4Addr::from(i * 40_503)));
    let ipv6 = |i: u32| IpNet::new(Ipv6Addr::from(u128::from(i * 2) << 80).into(), 48).unwrap();
    for (prefix, bytes) in [(&ipv4 as &dyn Fn(u32) -> IpNet, 12), (&ipv6, 20)] {
        let lists = Lists {
            allow: (1..=many).map(prefix).collect(),
            ..Lists::default()
        };
        let (words, index) = words(&lists.compile(&TierBits::default())).unwrap();
        let ranges = 2 * many as usize;
        let of_ranges = index.prefixes as usize * 8;
        assert!(of_ranges <= ranges * bytes + 1_000, "{of_ranges} bytes");
        assert!(words.len() * 8 - of_ranges <= many as usize * 24 + 1_000);
    }
}

/// Files that are no index give nothing, and no panic.
#[test]
fn other_words_are_no_index() {
    let mut rng = Rng::with_seed(58);
    let prefixes = random_lists(&mut rng).compile(&TierBits::default());
    let (whole, _) = words(&prefixes).unwrap();
    for _ in 0..2_000 {
        let mut torn = whole[..rng.usize(0..=whole.len())].to_vec();
        for _ in 0..rng.usize(0..4) {
            if let Some(word) = rng.choice(&mut torn) {
                *word ^= 1 << rng.u32(0..64);
            }
        }
        let torn = Memory(torn);
        let _ = super::prefixes(&torn);
        for address in [
            IpAddr::from(Ipv4Addr::from(rng.u32(..))),
            Ipv6Addr::from(rng.u128(..)).into(),
        ] {
            let _ = listed(&torn, address);
        }
    }
    assert_eq!(super::prefixes(&Memory(Vec::new())), None);
    assert_eq!(
        listed(&Memory(Vec::new()), Ipv4Addr::LOCALHOST.into()),
        None
    );
}

/// Counts the cache lines of a lookup.
struct Lines<'a>(&'a Memory, RefCell<BTreeSet<u32>>);

impl Array for Lines<'_> {
    fn word(&self, number: u32) -> Option<u64> {
        self.1.borrow_mut().insert(number / 8);
        self.0.word(number)
    }
}

/// The words of the index itself do not count: they are constants of the program.
#[test]
fn random_address_is_found_in_few_cache_lines() {
    let mut rng = Rng::with_seed(59);
    let lengths = [
        16, 18, 20, 21, 22, 23, 24, 24, 24, 25, 26, 27, 28, 29, 30, 31, 32,
    ];
    let deny = (0..100_000).map(|_| {
        let length = *rng.choice(&lengths).unwrap();
        IpNet::new(Ipv4Addr::from(rng.u32(..)).into(), length)
            .unwrap()
            .trunc()
    });
    let lists = Lists {
        deny: deny.collect(),
        ..Lists::default()
    };
    let memory = index(&lists.compile(&TierBits::default()));
    let index = Index::read(&memory).unwrap();
    let (mut sum, mut most) = (0, 0);
    let addresses = 10_000;
    for _ in 0..addresses {
        let lines = Lines(&memory, RefCell::default());
        index.ipv4(&lines, &ipv4_words(rng.u32(..)));
        let lines = lines.1.into_inner().len();
        (sum, most) = (sum + lines, most.max(lines));
    }
    let mean = sum as f64 / f64::from(addresses);
    assert!(mean < 3.0 && most <= 6, "{mean} lines, {most} at most");
}
