//! Entries of the table store and return their contents, and keys find their sets.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
};

use limiter_common::{
    arithmetic::{
        bucket::{self, TAU_MAX, TICK_SHIFT, ticks},
        quota::Quota,
        window::{TOKENS_MAX, Window},
    },
    table::{
        Home, OVERFLOW_WIDTH, Overflow, SETS_OF_PAIR, SETS_OF_SOURCE, Seed, SharedTable, WAYS,
        entry::Shared,
        find,
        key::{Address, KeyMask, SLOTS, SourceKey, Words},
    },
};
use num_bigint::BigInt;
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
        let (family, address) = mask.masked(&address);
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

    /// A bucket has been full for the time since its TAT.
    #[test]
    fn bucket_is_full_since_its_tat(now: u64, apart in prop_oneof![0..3 * (1_i64 << TICK_SHIFT), any::<i64>()]) {
        let apart = apart.max(i64::MIN + 1);
        let tat = now.wrapping_sub(apart.cast_unsigned());
        let since = (apart >= 0).then_some(apart.cast_unsigned());
        prop_assert_eq!(bucket::full_for(tat, now), since);
        prop_assert_eq!(since.is_some(), bucket::spent(tat, now, TAU_MAX) == 0);
        let at = now >> TICK_SHIFT;
        let quota = Quota { tau: 1, cost: 1, ..Quota::default() };
        let full = bucket::full_for(tat, ticks(at)).map(|ticks| ticks >> TICK_SHIFT);
        prop_assert_eq!(quota.full_for(tat, at), full);
    }

    /// The bucket is full in the window that filled it and in all later ones, and not in the window before.
    #[test]
    fn window_bucket_is_full_since_the_start_of_the_window_that_filled_it(
        (period, phase) in (1..1_u64 << 40, any::<u64>()),
        (grant, burst) in (1..200_u64, 1..2_000_u64),
        start in 1_u64 << 60..1 << 61,
        left in 0..2_000_u64,
        later in 0..3_000_u64,
        within in any::<u64>(),
    ) {
        let window = Window { period, phase: phase % period, grant };
        let quota = Quota { tau: burst, cost: 1, window, ..Quota::default() };
        let left = left.min(burst);
        let word = window.word(start, left);
        let now = start + later * period + within % period;
        let number = |moment: u64| (BigInt::from(moment) + window.phase) / period;
        let has = |moment: &BigInt| {
            let passed = ((moment + window.phase) / period - number(start)).max(BigInt::ZERO);
            (BigInt::from(left) + passed * grant).min(burst.into())
        };
        let model = if has(&now.into()) < burst.into() {
            None
        } else {
            let missing: BigInt = BigInt::from(burst - left) + grant - 1_u32;
            let first = number(start) + missing / grant;
            let began: BigInt = first * period - window.phase;
            prop_assert_eq!(has(&began), burst.into());
            prop_assert!(left == burst || has(&(&began - 1_u32)) < burst.into());
            Some(BigInt::from(now) - began)
        };
        prop_assert_eq!(quota.full_for(word, now).map(BigInt::from), model);
        prop_assert_eq!(quota.full_for(word, now).is_some(), quota.left(word, now) == burst);
    }

    #[test]
    fn earlier_clock_does_not_fill_a_window(
        grant in 1..=TOKENS_MAX,
        burst in 1..=TOKENS_MAX,
        left in 0..=TOKENS_MAX,
        windows in 1..1_000_u64,
    ) {
        let window = Window { period: 1_000, phase: 0, grant };
        let quota = Quota { tau: burst, cost: 1, window, ..Quota::default() };
        let start = 1 << 60;
        let word = window.word(start, left.min(burst));
        let full = (left >= burst).then_some(0);
        prop_assert_eq!(quota.full_for(word, start - windows * window.period), full);
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

    #[test]
    fn source_is_searched_up_to_the_furthest_source_of_its_set(key in keys(), seed: [u64; 4], pairs in 1..100_u32, distances in distances()) {
        let (seed, sets) = (Seed::new(seed), pairs * SETS_OF_PAIR);
        let overflow = with_all(&distances);
        let furthest = distances.iter().max().map_or(0, |distance| distance / SETS_OF_PAIR * SETS_OF_PAIR + 1);
        let wanted: Vec<u32> = seed.home(&key, sets).sets().take(1 + furthest as usize).collect();
        prop_assert_eq!(SearchLog::at(&seed, &key, sets, overflow), wanted);
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

    #[test]
    fn overflow_sources_stay_within_reach(steps in prop::collection::vec((any::<bool>(), 1..SETS_OF_SOURCE, any::<prop::sample::Index>()), 0..60)) {
        let mut there: Vec<u32> = Vec::new();
        let mut word = 0_u64;
        for (comes, distance, which) in steps {
            if comes || there.is_empty() {
                match Overflow::in_word(word, 0).with_one_more(distance) {
                    Some(more) => {
                        word = more.put_into(word, 0);
                        there.push(distance);
                    }
                    None => prop_assert_eq!(there.len(), COUNT_MAX),
                }
            } else {
                there.swap_remove(which.index(there.len()));
                word -= 1;
            }
            let overflow = Overflow::in_word(word, 0);
            prop_assert_eq!(overflow.count(), there.len() as u64);
            prop_assert!(there.iter().all(|&distance| overflow.reaches(distance)));
        }
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

/// An empty table that records the searched sets.
struct SearchLog {
    seed: Seed,
    sets: u32,
    overflow: Cell<u64>,
    numbers: RefCell<Vec<u32>>,
}

impl SearchLog {
    fn at(seed: &Seed, key: &SourceKey, sets: u32, overflow: Overflow) -> Vec<u32> {
        let table = Self {
            seed: *seed,
            sets,
            overflow: Cell::new(overflow.0),
            numbers: RefCell::default(),
        };
        let log = &table;
        find(&log, key, &log.home(key));
        table.numbers.into_inner()
    }
}

/// An entry that does not exist.
#[derive(Clone, Copy)]
struct Nothing<'a>(&'a Cell<u64>);

impl<'a> Shared for Nothing<'a> {
    type Word = &'a Cell<u64>;
    fn word(self, _: usize) -> &'a Cell<u64> {
        self.0
    }
    fn next(self) -> Self {
        self
    }
}

impl<'a> SharedTable for &'a SearchLog {
    type Entry = Nothing<'a>;

    fn set(&self, number: u32) -> Option<Nothing<'a>> {
        self.numbers.borrow_mut().push(number);
        None
    }
    fn home(&self, key: &SourceKey) -> Home {
        self.seed.home(key, self.sets)
    }
    fn overflow_word(&self, _: u32) -> Option<(&'a Cell<u64>, u32)> {
        Some((&self.overflow, 0))
    }
    fn lock_word(&self, _: u32) -> Option<&'a Cell<u64>> {
        None
    }
    fn full_for(&self, _: u64, _: u64, _: u64) -> Option<u64> {
        None
    }
    fn sets(&self) -> u32 {
        self.sets
    }
    fn reserve(&self, _: &SourceKey) -> bool {
        false
    }
    fn release(&self, _: u32, _: u32) {}
    fn has_room(&self, _: &SourceKey) -> bool {
        false
    }
    fn hand(&self) -> u32 {
        0
    }
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
    mask.key(0, &address, port)
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
