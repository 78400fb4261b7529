//! The index gives each address the lists of its longest prefix, and gives all prefixes back.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    net::{Ipv4Addr, Ipv6Addr},
};

use fastrand::Rng;

use super::*;
use crate::{Lists, TierBits, compile::Compiled};

/// Words in memory.
struct Memory(Vec<u64>);

impl Array for Memory {
    fn word(&self, number: u32) -> Option<u64> {
        self.0.get(number as usize).copied()
    }
}

/// The words of an index, each of which is written once, and the places of its parts.
fn words(prefixes: &Compiled) -> (Vec<u64>, Index) {
    let plan = Plan::new(prefixes).unwrap();
    let index = plan.index;
    let mut words = vec![None; plan.length as usize];
    plan.write(|place, word| assert_eq!(words[place as usize].replace(word), None, "{place}"));
    let all: Option<Vec<u64>> = words.into_iter().collect();
    (all.expect("all words"), index)
}

fn index(prefixes: &Compiled) -> Memory {
    let (memory, index) = words(prefixes);
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

fn check(compiled: &Compiled, more: impl IntoIterator<Item = IpAddr>) {
    let index = index(compiled);
    let prefixes: &BTreeMap<_, _> = &compiled.iter().collect();
    for address in edges(prefixes).into_iter().chain(more) {
        let (found, wanted) = (listed(&index, address), longest(prefixes, address));
        assert_eq!(found, Some(wanted), "{address} in {prefixes:?}");
    }
    let groups = super::prefixes(&index).unwrap();
    let all = groups
        .iter()
        .flat_map(|(prefixes, own)| prefixes.iter().map(|net| (net, *own)));
    let own: BTreeMap<_, _> = all.collect();
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
        let (words, index) = words(&lists.compile(&TierBits::default()));
        let ranges = 2 * many as usize;
        let of_ranges = index.prefixes as usize * 8;
        assert!(of_ranges <= ranges * bytes + 1_000, "{of_ranges} bytes");
        assert!(words.len() * 8 - of_ranges <= many as usize * 24 + 1_000);
    }
}

/// A trie of prefixes, a bit at each step.
#[derive(Default)]
struct Trie {
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Default)]
struct Node {
    children: [usize; 2],
    listed: Option<Listed>,
}

/// The bits of an address, the first one highest, and their number.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

impl Trie {
    /// The prefixes of one family.
    fn new(prefixes: &BTreeMap<IpNet, Listed>, is_ipv4: bool) -> Self {
        let mut nodes = vec![Node::default()];
        let of_family = |(net, _): &(&IpNet, &Listed)| net.addr().is_ipv4() == is_ipv4;
        for (net, listed) in prefixes.iter().filter(of_family) {
            let (mut place, (bits, _)) = (0, bits(net.network()));
            for step in 0..net.prefix_len() {
                let side = (bits >> (127 - step) & 1) as usize;
                if nodes[place].children[side] == 0 {
                    nodes[place].children[side] = nodes.len();
                    nodes.push(Node::default());
                }
                place = nodes[place].children[side];
            }
            nodes[place].listed = Some(*listed);
        }
        Self { nodes }
    }

    fn longest(&self, address: IpAddr) -> Listed {
        let (bits, length) = bits(address);
        let mut node = self.nodes[0];
        let mut found = node.listed;
        for step in 0..length {
            match node.children[(bits >> (127 - step) & 1) as usize] {
                0 => break,
                next => node = self.nodes[next],
            }
            found = node.listed.or(found);
        }
        Listed {
            own: 0,
            ..found.unwrap_or_default()
        }
    }
}

/// Prefixes as published lists have them: blocks of a country one behind the other, addresses close together that were
/// banned, networks with exceptions in them; and addresses far from all others.
fn shaped(rng: &mut Rng, is_ipv6: bool, count: usize) -> Vec<IpNet> {
    let (width, first): (u8, u128) = match is_ipv6 {
        true => (128, 0x2a00 << 112),
        false => (32, 0),
    };
    let net = |bits: u128, length: u8| {
        let net = match is_ipv6 {
            true => IpNet::new(Ipv6Addr::from(bits).into(), length),
            false => IpNet::new(Ipv4Addr::from(bits as u32).into(), length),
        };
        net.unwrap().trunc()
    };
    let lengths: &[u8] = match is_ipv6 {
        true => &[29, 32, 32, 36, 40, 44, 48, 48, 48, 56, 63, 64],
        false => &[14, 16, 18, 19, 20, 21, 22, 22, 23, 24, 24, 24],
    };
    let mut all = Vec::new();
    while all.len() < count {
        let bits = first | rng.u128(..) >> (128 - u32::from(width)) >> (u32::from(is_ipv6) * 12);
        let length = *rng.choice(lengths).unwrap();
        let host = u32::from(width - length);
        match rng.u8(0..4) {
            0 => {
                // Those behind it, mostly without a gap.
                for step in 0..rng.u128(1..40) {
                    let step = step + u128::from(rng.u8(0..8) == 0);
                    all.push(net(bits.wrapping_add(step << host), length));
                }
            }
            1 => {
                let few = if is_ipv6 { 80 } else { 8 };
                for _ in 0..rng.usize(1..60) {
                    all.push(net(bits ^ rng.u128(..) >> (128 - few), width));
                }
            }
            2 => {
                for length in length..width {
                    if rng.u8(0..6) == 0 {
                        all.push(net(bits ^ rng.u128(..) >> (128 - host), length));
                    }
                }
                all.push(net(bits, length));
            }
            _ => all.push(net(bits, width)),
        }
    }
    all
}

/// A trie and a search through all prefixes give the lists of the longest one at all edges.
#[test]
fn lists_as_published_are_found_as_by_a_trie_and_by_a_plain_list() {
    let mut rng = Rng::with_seed(61);
    for round in 0..6 {
        let mut lists = Lists::default();
        for is_ipv6 in [false, true] {
            lists.allow.extend(shaped(&mut rng, is_ipv6, 300));
            lists.deny.extend(shaped(&mut rng, is_ipv6, 3_000));
            // A country and the bans in it.
            let within: Vec<_> = lists.deny.iter().filter(|_| rng.u8(0..9) == 0).collect();
            lists.allow.extend(within);
        }
        check_long(&lists.compile(&TierBits::default()), &mut rng, round);
    }
}

fn check_long(compiled: &Compiled, rng: &mut Rng, round: u32) {
    let index = index(compiled);
    let prefixes = compiled.iter().collect();
    let tries = [true, false].map(|is_ipv4| Trie::new(&prefixes, is_ipv4));
    let edges = edges(&prefixes);
    for address in &edges {
        let found = listed(&index, *address);
        let wanted = tries[usize::from(address.is_ipv6())].longest(*address);
        assert_eq!(found, Some(wanted), "{address}, round {round}");
    }
    for _ in 0..300 {
        let address = *rng.choice(&edges).unwrap();
        let around = prefixes.iter().filter(|(net, _)| net.contains(&address));
        let longest = around.max_by_key(|(net, _)| net.prefix_len());
        let wanted = longest.map_or(Listed::default(), |(_, listed)| Listed {
            own: 0,
            ..*listed
        });
        assert_eq!(
            listed(&index, address),
            Some(wanted),
            "{address}, round {round}"
        );
    }
}

/// Files that are no index give nothing, and no panic.
#[test]
fn other_words_are_no_index() {
    let mut rng = Rng::with_seed(58);
    let prefixes = random_lists(&mut rng).compile(&TierBits::default());
    let (whole, _) = words(&prefixes);
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
