//! The table in the kernel fills nearly up before it refuses sources, and no two sources share a bucket.

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use fastrand::Rng;
use limiter_common::{
    abi::KEPT_FOR,
    arithmetic::{
        bucket::{Decision, ticks},
        quota::Quota,
    },
    policy::verdict::Reason,
    table::key::SourceKey,
};
use limiter_tests::{
    engine::{Kernel, Limit},
    need_kernel,
    packet::Frame,
    store::Placed,
};

const START: u64 = 1_000_000_000_000;
const HOUR: u64 = 3_600_000_000_000;
const CAPACITY: u32 = 4_096;
const BURST: u64 = 10;

/// A permutation of all numbers.
fn scattered(number: u32) -> u32 {
    let number = (number ^ number >> 16).wrapping_mul(0x7feb_352d);
    let number = (number ^ number >> 15).wrapping_mul(0x846c_a68b);
    number ^ number >> 16
}

/// The source with this number: an IPv4 address or an IPv6 network, which takes one entry.
fn narrow(number: u32) -> IpAddr {
    if number.is_multiple_of(2) {
        Ipv4Addr::from(scattered(number)).into()
    } else {
        let network = 0x2001_0db8_0000_0000 + u64::from(scattered(number));
        Ipv6Addr::from((u128::from(network) << 64) + 1).into()
    }
}

/// The source with this number: an IPv6 address of one network, which takes two entries.
fn wide(number: u32) -> IpAddr {
    Ipv6Addr::from((0x2001_0db8_0000_0000 << 64) + u128::from(scattered(number)) + 1).into()
}

/// A table that the test fills.
struct Filling {
    kernel: Kernel,
    quota: Quota,
    /// The TAT of each admitted source's bucket, by the arithmetic alone.
    tats: HashMap<IpAddr, u64>,
    source: fn(u32) -> IpAddr,
    entries_of_source: u32,
    now: u64,
    known: Vec<IpAddr>,
    refused: u64,
    /// Number of admitted packets.
    admitted: u64,
    rng: Rng,
}

impl Filling {
    fn new(key: &str, source: fn(u32) -> IpAddr, entries_of_source: u32) -> Self {
        let limit = Limit {
            key: key.parse().unwrap(),
            capacity: CAPACITY,
            ..Limit::new("1/h", &BURST.to_string())
        };
        Self {
            kernel: Kernel::new(&limit),
            quota: limit.config().limits[0].quota,
            tats: HashMap::new(),
            source,
            entries_of_source,
            now: START,
            known: Vec::new(),
            refused: 0,
            admitted: 0,
            rng: Rng::with_seed(7),
        }
    }

    fn room(&self) -> usize {
        (CAPACITY / self.entries_of_source) as usize
    }

    /// The verdict of the source's own bucket on one more packet.
    fn wanted(&mut self, source: IpAddr) -> Reason {
        let full = self.quota.full(self.now);
        let tat = self.tats.entry(source).or_insert(full);
        match self.quota.decide(*tat, self.now, self.quota.cost_of(60)) {
            Decision::Admit { tat: charged } => {
                *tat = charged;
                Reason::Admitted
            }
            Decision::Refuse { .. } => Reason::Limit,
        }
    }

    /// Sends one packet of a known source. Verdict and TAT must be those of its own bucket.
    fn expect_own_bucket(&mut self, source: IpAddr) {
        let wanted = self.wanted(source);
        let ours = self.kernel.offer(&Frame::from(source).bytes(), self.now);
        assert_eq!(ours, wanted, "{source}, {} known", self.known.len());
        self.admitted += u64::from(ours == Reason::Admitted);
        let entry = self.kernel.entry(&self.kernel.limit.of(source));
        assert_eq!(entry.unwrap().tat, self.tats[&source], "{source}");
    }

    /// Sends from a new source, and sometimes checks a known source.
    fn one_more(&mut self, number: u32) {
        self.now += 1_000;
        let source = (self.source)(number);
        let packet = Frame::from(source).bytes();
        match self.kernel.offer(&packet, self.now) {
            Reason::Admitted => {
                self.wanted(source);
                self.admitted += 1;
                self.known.push(source);
            }
            reason => {
                assert_eq!(reason, Reason::NewSource);
                self.refused += 1;
                let key = self.kernel.limit.of(source);
                assert_eq!(self.kernel.entry(&key), None, "no bucket if refused");
            }
        }
        if number.is_multiple_of(4) {
            let known = self.known[self.rng.usize(0..self.known.len())];
            self.expect_own_bucket(known);
        }
    }

    /// Panics unless the table and the counters agree.
    fn expect_figures(&self, removed: u64) {
        let counters = self.kernel.tables.counters().unwrap();
        let of = |reason: Reason| counters.by_reason[reason as usize].packets;
        assert_eq!(of(Reason::NewSource), self.refused, "{counters:?}");
        assert_eq!(of(Reason::Admitted), self.admitted, "{counters:?}");
        assert_eq!(counters.sources_removed, removed);
        let placed = self.kernel.store.expect_sound(false);
        let tracked = counters.sources_added - counters.sources_removed;
        assert_eq!(placed.len() as u64, tracked);
        let limit = &self.kernel.limit;
        let known: HashSet<SourceKey> = self.known.iter().map(|ip| limit.of(*ip)).collect();
        let found: HashSet<SourceKey> = placed.iter().map(|entry| entry.key).collect();
        assert!(found == known, "the table has exactly the admitted sources");
        let mapped: HashMap<_, _> = self.kernel.tables.sets.sources().collect();
        assert_eq!(mapped.len() as u64, tracked, "in the maps");
        for entry in &placed {
            assert_eq!(mapped[&entry.key].tat, entry.tat, "in the maps");
        }
        let passed: u64 = mapped.values().map(|source| source.passed).sum();
        let refused: u64 = mapped.values().map(|source| source.refused).sum();
        if removed == 0 {
            assert_eq!((passed, refused), (self.admitted, of(Reason::Limit)));
        }
    }
}

/// Fills an empty table, and then replaces all sources. Each admitted source must keep its own bucket.
///
/// `most_refused`: bounds on refused sources until 85 % and 95 % of the room are taken. They are many times the mean
/// (0.04 and 10, for wide keys 0.8 and 20), because the seed is random.
fn from_empty_to_full_and_over(mut filling: Filling, most_refused: [u64; 2]) {
    let mut number = 0;
    let mut refused_until = [0; 2];
    while filling.known.len() < filling.room() {
        filling.one_more(number);
        number += 1;
        for (percent, refused) in [85, 95].into_iter().zip(&mut refused_until) {
            if filling.known.len() * 100 <= filling.room() * percent {
                *refused = filling.refused;
            }
        }
        assert!(number < 100 * CAPACITY, "{} admitted", filling.known.len());
        if number.is_power_of_two() {
            filling.expect_figures(0);
        }
    }
    println!("refused until 85 and 95 % were taken: {refused_until:?}");
    for (refused, most) in refused_until.into_iter().zip(most_refused) {
        assert!(refused <= most, "{refused_until:?}");
    }
    let refused = filling.refused;
    for _ in 0..500 {
        filling.one_more(number);
        number += 1;
    }
    assert_eq!(filling.refused, refused + 500, "the table is full");
    filling.expect_figures(0);
    for source in filling.known.clone() {
        filling.expect_own_bucket(source);
    }
    assert!(
        !filling.kernel.store.overflow().is_empty(),
        "no source is in another set"
    );

    // All buckets are full, and their sources no longer kept. Each set gets as many new sources as it has room for.
    filling.now += 2 * BURST * HOUR + KEPT_FOR;
    let gone = std::mem::take(&mut filling.known);
    let of_set = limiter_common::table::WAYS / filling.entries_of_source;
    let mut in_set: HashMap<u32, u32> = HashMap::new();
    while filling.known.len() < filling.room() {
        number += 1;
        let source = (filling.source)(number);
        let key = filling.kernel.limit.of(source);
        let sources = in_set.entry(filling.kernel.store.home(&key)).or_default();
        if *sources < of_set {
            *sources += 1;
            let packet = Frame::from(source).bytes();
            assert!(filling.kernel.passes(&packet, filling.now), "{source}");
            filling.admitted += 1;
            filling.known.push(source);
        }
    }
    filling.expect_figures(gone.len() as u64);
    let overflow = filling.kernel.store.overflow();
    assert!(overflow.is_empty(), "all of them have left: {overflow:?}");
}

#[test]
fn table_of_narrow_keys_fills_from_empty_to_full() {
    need_kernel!();
    from_empty_to_full_and_over(Filling::new("/32,/64", narrow, 1), [12, 60]);
}

#[test]
fn table_of_wide_keys_fills_from_empty_to_full() {
    need_kernel!();
    from_empty_to_full_and_over(Filling::new("/32,/128", wide, 2), [20, 90]);
}

/// An attacker cannot find such sources without the seed.
#[test]
fn sources_of_one_set_have_separate_buckets() {
    need_kernel!();
    let limit = Limit {
        capacity: 8_192,
        ..Limit::new("1/h", "3")
    };
    let kernel = Kernel::new(&limit);
    let home = 77;
    let candidates = (0..).map(narrow);
    let of_home = candidates.filter(|source| kernel.store.home(&limit.of(*source)) == home);
    let sources: Vec<IpAddr> = of_home.take(2_000).collect();
    // Neighbours of the set have counts in its word, and no sources in overflow sets.
    let mut known = Vec::new();
    for (i, source) in (0..).zip(&sources) {
        let packet = Frame::from(*source).bytes();
        match kernel.offer(&packet, START + i) {
            Reason::Admitted => known.push((*source, START + i)),
            reason => assert_eq!(reason, Reason::NewSource),
        }
    }
    // The set has room for two sources, and its count of sources in overflow sets has four bits.
    assert_eq!(known.len(), 2 + 15, "sources of the set");
    let placed = kernel.store.expect_sound(false);
    assert_eq!(placed.len(), known.len());
    let hour = ticks(HOUR);
    for (source, since) in &known {
        let key = limit.of(*source);
        assert_eq!(kernel.entry(&key).unwrap().tat, ticks(*since) + hour);
        let packet = Frame::from(*source).bytes();
        let later = START + 5_000;
        assert!(kernel.passes(&packet, later) && kernel.passes(&packet, later));
        assert_eq!(kernel.offer(&packet, later), Reason::Limit, "{source}");
        let entry = kernel.entry(&key).unwrap();
        assert_eq!(entry.tat, ticks(*since) + 3 * hour);
        assert_eq!((entry.passed, entry.refused), (3, 1));
    }
    // Sources that leave make room, first in the set itself, and then in other sets, when these get new sources.
    let later = START + 3 * HOUR + KEPT_FOR + 5_000;
    let mut offer = |number: usize| kernel.offer(&Frame::from(sources[number]).bytes(), later);
    let again: Vec<Reason> = (1_000..1_100).map(&mut offer).collect();
    let room = again.iter().take_while(|reason| reason.passes()).count();
    assert_eq!(room, 2);
    assert!(
        again[room..]
            .iter()
            .all(|reason| *reason == Reason::NewSource)
    );
    let offer_narrow = |number| kernel.offer(&Frame::from(narrow(number)).bytes(), later);
    (10_000_000..10_030_000).for_each(|number| {
        let _ = offer_narrow(number);
    });
    let placed = kernel.store.expect_sound(false);
    let of_home = |placed: &[Placed]| {
        let homes = placed.iter().map(|entry| kernel.store.home(&entry.key));
        homes.filter(|set| *set == home).count()
    };
    assert!(of_home(&placed) < 50, "{} of 2,000 left", of_home(&placed));
}
