//! Entries of the table store and return their contents, and keys find their sets.

use std::{cell::Cell, collections::HashSet};

use limiter_common::table::{
    OVERFLOW_WIDTH, Overflow, SETS_OF_PAIR, SETS_OF_SOURCE, Seed, WAYS,
    entry::{
        ADDRESS, BEHIND_MAX, ONE_PACKET, OVER, PASSED, Shared, counter, epoch_in, is_wide, slot_in,
        with_epoch, without_counter,
    },
    key::{Address, KeyMask, SLOTS, SourceKey, Words},
    nat64::Nat64,
};
use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed},
};

/// Settings for a fixed seed and number of cases, unless the environment sets the number.
fn cases(cases: u32) -> Config {
    let default = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        default
    } else {
        Config {
            cases,
            rng_seed: RngSeed::Fixed(0x117e),
            ..default
        }
    }
}

type Parts = (u32, Words, u32, u32);

/// Family, masked address, slot and port of any key that a limit can make.
fn parts() -> impl Strategy<Value = Parts> {
    let masks = (0..=32_u32, 0..=128_u32, 0..4_u32).prop_map(|(ipv4, ipv6, kind)| KeyMask {
        interface: u32::from(kind == 0),
        ..KeyMask::prefixes(ipv4, ipv6)
    });
    let ipv6 = prop_oneof![3 => any::<[u64; 2]>(), 1 => any::<u64>().prop_map(|first| [first, 0]), 1 => Just([0, 0])];
    let address = prop_oneof![
        any::<u32>().prop_map(Address::ipv4),
        ipv6.prop_map(Address::ipv6)
    ];
    let port = prop_oneof![1 => Just(0), 2 => any::<u16>()];
    (masks, 0..SLOTS, address, port).prop_map(|(mask, slot, address, port)| {
        let (family, address) = mask.masked(&address, &Nat64::WELL_KNOWN);
        (family, address, slot, port.into())
    })
}

fn key((family, address, slot, port): Parts) -> SourceKey {
    SourceKey::new(family, address, slot, port)
}

fn keys() -> impl Strategy<Value = SourceKey> {
    parts().prop_map(key)
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn different_keys_are_unequal_and_have_different_parts(one in parts(), slot in 0..SLOTS, port: u16, other in parts()) {
        for other in [other, (one.0, one.1, slot, port.into())] {
            prop_assert_eq!(key(one) == key(other), one == other);
        }
        let key = key(one);
        prop_assert_eq!((key.family(), key.address(), key.slot(), key.port()), one);
        prop_assert_eq!(key.is_wide(), one.1[1] != 0);
        prop_assert_eq!(key.scope >> 24, 0, "fields that an entry does not store");
    }

    /// An entry returns its key and counters, and belongs to no key that differs in a bit or in slot and port.
    #[test]
    fn entry_belongs_only_to_its_own_key(
        one in parts(), slot in 0..SLOTS, port: u16, epoch: u8, bit in 0..64_u32, word in 0..3_usize,
    ) {
        let own = key(one);
        let pair = Pair::default();
        let entry = At(&pair, 0);
        entry.store(ADDRESS, own.first);
        entry.next().store(ADDRESS, own.rest);
        entry.store(PASSED, u64::from(own.port()) | (5 * ONE_PACKET));
        entry.store(OVER, with_epoch(own.limit(), epoch.into()) + ONE_PACKET);
        let over = entry.load(OVER);
        prop_assert!(entry.is_of(&own));
        prop_assert_eq!(entry.key(), own);
        prop_assert_eq!((slot_in(over), is_wide(over)), (own.slot(), own.rest != 0));
        prop_assert_eq!((counter(entry.load(PASSED)), counter(over)), (5, 1));
        prop_assert_eq!(without_counter(over), over - ONE_PACKET);
        let mut flipped = own;
        match word {
            0 => flipped.first ^= 1 << bit,
            1 if own.rest != 0 && own.rest != 1 << bit => flipped.rest ^= 1 << bit,
            _ => flipped.scope ^= 1 << (bit % 24),
        }
        let sibling = key((one.0, one.1, slot, port.into()));
        for other in [flipped, sibling] {
            prop_assert_eq!(entry.is_of(&other), own == other, "{:?}, {:?}", own, other);
        }
    }

    /// The sets come in pairs. All are distinct if the number of pairs is prime or a power of two.
    #[test]
    fn the_sets_of_a_source_are_distinct(
        key in keys(),
        seed: [u64; 4],
        pairs in prop_oneof![1..100_u32, (0..20_u32).prop_map(|bits| 1 << bits)],
    ) {
        let (seed, sets) = (Seed::new(seed), pairs * SETS_OF_PAIR);
        let looked: Vec<u32> = seed.home(&key, sets).sets().collect();
        prop_assert_eq!(looked.len(), SETS_OF_SOURCE as usize);
        prop_assert!(looked.iter().all(|&set| set < sets));
        prop_assert_eq!(looked[0], seed.home(&key, sets).set);
        prop_assert!(looked.chunks(2).all(|pair| pair[0] ^ 1 == pair[1]), "{:?}", looked);
        let distinct: HashSet<_> = looked.iter().collect();
        let most = sets.min(SETS_OF_SOURCE) as usize;
        if is_prime(pairs) || pairs.is_power_of_two() {
            prop_assert_eq!(distinct.len(), most);
        } else {
            prop_assert!((2..=most).contains(&distinct.len()));
        }
    }

    /// The data of the neighbours in the word do not change.
    #[test]
    fn set_counts_its_overflow_sources_and_stores_their_reach(word: u64, byte in 0..u64::BITS / OVERFLOW_WIDTH, distances in distances()) {
        let shift = byte * OVERFLOW_WIDTH;
        let mask = ((1 << OVERFLOW_WIDTH) - 1) << shift;
        let overflow = with_all(&distances);
        prop_assert_eq!(overflow.count(), distances.len() as u64);
        for distance in 0..SETS_OF_SOURCE {
            let within = distances.iter().any(|&there| distance / SETS_OF_PAIR <= there / SETS_OF_PAIR);
            prop_assert_eq!(overflow.reaches(distance), distance == 0 || within);
        }
        prop_assert_eq!(overflow.with_one_more(1).is_none(), distances.len() == COUNT_MAX);
        let with = overflow.put_into(word, shift);
        prop_assert_eq!(Overflow::in_word(with, shift), overflow);
        prop_assert_eq!(with & !mask, word & !mask);
        if !distances.is_empty() {
            let one_less = with.wrapping_add(u64::MAX << shift);
            prop_assert_eq!(Overflow::in_word(one_less, shift).count(), overflow.count() - 1);
            prop_assert_eq!(one_less & !mask, word & !mask);
        }
    }
}

/// An entry stores only the lower bits of the epoch, which repeat.
#[test]
fn entry_stores_the_epoch_of_its_quota() {
    for present in [0, 1, 127, 128, 200, 255, 256, 1_000, u32::MAX - 1, u32::MAX] {
        for behind in 0..=BEHIND_MAX {
            let epoch = present.wrapping_sub(behind);
            // Only the bits of the epoch change.
            let others = 0xffff_ffff_ffff_00ff;
            let over = with_epoch(with_epoch(others, !epoch), epoch);
            assert_eq!(over & others, others);
            assert_eq!(epoch_in(over, present), epoch, "{present} less {behind}");
            let ahead = present.wrapping_add(behind);
            assert_eq!(epoch_in(with_epoch(0, ahead), present), ahead);
        }
    }
}

/// Two adjacent entries.
type Pair = [[Cell<u64>; 4]; 2];

#[derive(Clone, Copy)]
struct At<'a>(&'a Pair, usize);

impl<'a> Shared for At<'a> {
    type Word = &'a Cell<u64>;

    fn word(self, index: usize) -> &'a Cell<u64> {
        &self.0[self.1][index]
    }

    fn next(self) -> Self {
        Self(self.0, 1)
    }
}

/// Maximum number of sources in other sets that a set can count.
const COUNT_MAX: usize = 15;

/// Distances of the overflow sources of one set.
fn distances() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(1..SETS_OF_SOURCE, 0..=COUNT_MAX)
}

fn with_all(distances: &[u32]) -> Overflow {
    distances
        .iter()
        .fold(Overflow::default(), |overflow, &distance| {
            overflow.with_one_more(distance).expect("the set has room")
        })
}

fn is_prime(number: u32) -> bool {
    number > 1 && (2..number).all(|divisor| !number.is_multiple_of(divisor))
}

const SEEDS: [[u64; 4]; 4] = [
    [
        0,
        0x9e37_79b9_7f4a_7c15,
        0xc2b2_ae3d_27d4_eb4f,
        0xd6e8_feb8_6659_fd93,
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
    [
        0x9216_d5d9_8979_fb1b,
        0xd131_0ba6_98df_b5ac,
        0x2ffd_72db_d01a_dfb7,
        0xb8e1_afed_6a26_7e96,
    ],
];

/// Consecutive sources of one kind: IPv4 addresses, IPv6 networks, hosts of one network, or ports.
fn in_a_row(kind: usize, number: u32) -> SourceKey {
    let mask = KeyMask {
        port: u32::from(kind == 5),
        ..KeyMask::prefixes(32, 128)
    };
    let v6 = |high: u64, low: u64| Address::ipv6([high.to_be(), low.to_be()]);
    let number_64 = u64::from(number);
    let (address, port) = match kind {
        0 => (Address::ipv4((0x0a00_0000 + number).to_be()), 0),
        1 => (Address::ipv4((number << 8).to_be()), 0),
        2 => (v6(0x2001_0db8_0000_0000 + number_64, 0), 0),
        3 => (v6(0x2001_0db8_0000_0000 + (number_64 << 16), 0), 0),
        4 => (v6(0x2001_0db8_0000_0000, 1 + number_64), 0),
        _ => (
            Address::ipv4(0x0a00_0001_u32.to_be()),
            (number & 0xffff) as u16,
        ),
    };
    mask.key(0, &address, port, &Nat64::WELL_KNOWN)
}

/// The number of sources per set follows a Poisson distribution.
#[test]
fn consecutive_sources_spread_like_random() {
    const SETS: u32 = 16_412;
    let sources = 2 * SETS;
    for (kind, seed) in (0..6).flat_map(|kind| SEEDS.map(|seed| (kind, Seed::new(seed)))) {
        let mut fill = vec![0_u32; SETS as usize];
        for number in 0..sources {
            fill[seed.home(&in_a_row(kind, number), SETS).set as usize] += 1;
        }
        // The mean is two sources per set.
        let expected = |more: u32| {
            let mut term = (-2.0_f64).exp();
            let mut below = 0.0;
            for k in 0..=more {
                below += term;
                term *= 2.0 / f64::from(k + 1);
            }
            (1.0 - below) * f64::from(SETS)
        };
        let have = |more: u32| fill.iter().filter(|&&sources| sources > more).count() as f64;
        for more in [WAYS, 4, 6, 8] {
            assert!(
                have(more) <= 1.25 * expected(more) + 12.0,
                "kind {kind}, {seed:x?}: {} sets of more than {more}, and {} by lot",
                have(more),
                expected(more)
            );
        }
        let most = fill.iter().max();
        assert!(
            most <= Some(&14),
            "kind {kind}, {seed:x?}: {most:?} in a set"
        );
    }
}

#[test]
fn at_85_percent_use_at_most_one_in_10000_sources_finds_no_room() {
    const SETS: u32 = 1 << 14;
    let entries = SETS * WAYS;
    for (kind, seed) in (0..6).flat_map(|kind| SEEDS.map(|seed| (kind, Seed::new(seed)))) {
        let mut fill = vec![0; SETS as usize];
        let mut overflow = vec![Overflow::default(); SETS as usize];
        let mut without_room = 0;
        for number in 0..entries * 85 / 100 {
            let home = seed.home(&in_a_row(kind, number), SETS);
            let own = &mut overflow[home.set as usize];
            let room = (0..).zip(home.sets()).find_map(|(distance, set)| {
                let has_room = fill[set as usize] < WAYS;
                if has_room && distance > 0 {
                    *own = own.with_one_more(distance)?;
                }
                has_room.then_some(set)
            });
            match room {
                Some(set) => fill[set as usize] += 1,
                None => without_room += 1,
            }
        }
        assert!(
            without_room <= entries / 10_000,
            "kind {kind}, {seed:x?}: {without_room} of {entries}"
        );
    }
}

/// The host with these two bytes at these positions of its address: one in the network half, one in the host half.
fn host((in_network, network): (usize, u8), (in_host, host): (usize, u8)) -> SourceKey {
    let mut bytes = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1];
    bytes[in_network] = network;
    bytes[in_host] = host;
    let half = |half: usize| {
        let bytes = &bytes[half * 8..][..8];
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    };
    KeyMask::prefixes(32, 128).key(0, &Address::ipv6([half(0), half(1)]), 0, &Nat64::WELL_KNOWN)
}

/// A hash that adds the two halves would fail here: it gives equal hashes to as many hosts as there are networks.
#[test]
fn consecutive_hosts_of_consecutive_networks_spread_like_random() {
    const SETS: u32 = 1 << 13;
    let places = (4..8).flat_map(|network| (8..16).map(move |host| (network, host)));
    for ((in_network, in_host), words) in places.flat_map(|place| SEEDS.map(|words| (place, words)))
    {
        let seed = Seed::new(words);
        let mut fill = vec![0_u32; SETS as usize];
        for (network, number) in
            (0..64).flat_map(|network| (0..64).map(move |host| (network, host)))
        {
            let key = host((in_network, network), (in_host, number));
            fill[seed.home(&key, SETS).set as usize] += 1;
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
