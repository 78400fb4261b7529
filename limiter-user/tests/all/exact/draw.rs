//! Strategies that draw limits, times and packets.

use std::ops::Range;

use limiter_common::arithmetic::{
    bucket::{TAU_MAX, TICK_SHIFT},
    quota::{LENGTH_MAX, Quota},
};
use limiter_config::Rate;
use proptest::{collection::vec, prelude::*, sample::select};

use super::Limit;

/// 1.14 years in nanoseconds: the longest time over which two moments can be told apart.
pub const IDLE_MAX: u64 = 1 << (63 - TICK_SHIFT);

/// A number of any magnitude, from 1 to `most`.
pub fn magnitude(most: u64) -> impl Strategy<Value = u64> + Clone {
    (1..=most, 0..=most.ilog2()).prop_map(|(value, shift)| (value >> shift).max(1))
}

fn read(text: String) -> Rate {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Every valid rate of packets, 1/208d to 1G/s.
pub fn packet_rates() -> impl Strategy<Value = Rate> {
    let any = (
        magnitude(1_000_000_000),
        magnitude(208),
        select(&["s", "m", "h", "d"]),
    )
        .prop_map(|(amount, number, unit)| format!("{amount}/{number}{unit}"));
    let slow = select(&["1/d", "1/208d", "5/h", "10/m", "5/s"]);
    let fast = select(&["1M/s", "148800k/s", "148809524/s", "1G/s"]);
    prop_oneof![4 => any, 1 => slow.prop_map(str::to_owned), 1 => fast.prop_map(str::to_owned)]
        .prop_map(read)
}

/// Every valid rate of bits, 1 bit/s to 1 tbit/s.
pub fn bit_rates() -> impl Strategy<Value = Rate> {
    let any = magnitude(1_000_000_000_000).prop_map(|bits| format!("{bits}bit"));
    let known = select(&["1bit", "64kbit", "10mbit", "1gbit", "400gbit", "1tbit"]);
    prop_oneof![2 => any, 1 => known.prop_map(str::to_owned)].prop_map(read)
}

pub fn rates() -> impl Strategy<Value = Rate> {
    prop_oneof![packet_rates(), bit_rates()]
}

/// The largest burst for a rate.
pub fn most_tokens(rate: &Rate) -> u64 {
    let Quota {
        cost, cost_shift, ..
    } = Limit::with(*rate, 1).quota;
    let most = (u128::from(TAU_MAX) << cost_shift) / u128::from(cost);
    u64::try_from(most).unwrap_or(u64::MAX)
}

/// A rate with any valid burst, often the largest.
pub fn limits_of(rates: impl Strategy<Value = Rate>) -> impl Strategy<Value = Limit> {
    (rates, magnitude(TAU_MAX), prop::bool::weighted(0.1)).prop_map(|(rate, tokens, deepest)| {
        let most = most_tokens(&rate);
        let tokens = if deepest { most } else { tokens.min(most) };
        Limit::with(rate, tokens)
    })
}

pub fn limits() -> impl Strategy<Value = Limit> {
    limits_of(rates())
}

/// Limits that all count packets, or all count bytes.
pub fn alike(count: Range<usize>) -> impl Strategy<Value = Vec<Limit>> {
    prop_oneof![
        vec(limits_of(packet_rates()), count.clone()),
        vec(limits_of(bit_rates()), count)
    ]
}

/// Readings of the kernel's clock, in nanoseconds. Half of them are less than a microsecond or an
/// hour before the clock in ticks wraps.
pub fn moments() -> impl Strategy<Value = u64> {
    let before_wrap = |most: u64| (1..=most).prop_map(|before| (1 << (64 - TICK_SHIFT)) - before);
    prop_oneof![
        2 => 0..1_u64 << 60,
        1 => before_wrap(1_000),
        1 => before_wrap(3_600_000_000_000),
    ]
}

/// Time between two packets, in units of the limit's quota, so that any limit is tried near its edges.
#[derive(Clone, Copy, Debug)]
pub enum Gap {
    None,
    Nanoseconds(u64),
    /// Per cent of the packet's cost.
    Cost(u64),
    /// Per cent of the bucket's depth.
    Depth(u64),
    /// Until the packet is admitted.
    Soonest,
}

impl Gap {
    /// The gap in nanoseconds, before a packet of `length` bytes that must wait `wait` ticks.
    pub fn nanoseconds(self, quota: &Quota, length: u64, wait: u64) -> u64 {
        let percent = |ticks: u64, percent: u64| {
            let ticks = u128::from(ticks) * u128::from(percent) / 100;
            u64::try_from(ticks >> TICK_SHIFT).unwrap_or(u64::MAX)
        };
        let nanoseconds = match self {
            Self::None => 0,
            Self::Soonest => wait.div_ceil(1 << TICK_SHIFT),
            Self::Nanoseconds(nanoseconds) => nanoseconds,
            Self::Cost(share) => percent(quota.cost_of(length), share),
            Self::Depth(share) => percent(quota.tau, share),
        };
        nanoseconds.min(IDLE_MAX)
    }
}

pub fn gaps() -> impl Strategy<Value = Gap> {
    prop_oneof![
        5 => Just(Gap::None),
        2 => (1..2_000_u64).prop_map(Gap::Nanoseconds),
        5 => Just(Gap::Soonest),
        5 => (0..=250_u64).prop_map(Gap::Cost),
        1 => (0..=150_u64).prop_map(Gap::Depth),
        1 => magnitude(IDLE_MAX).prop_map(Gap::Nanoseconds),
    ]
}

#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub gap: Gap,
    pub length: u64,
}

/// A packet of a usual length, of any length, or of a length that fits a few times into the burst. It is never longer
/// than the burst: a source of such packets counts as silent, and after more than a year of silence its TAT looks like
/// one of the future.
pub fn packet(limit: &Limit) -> impl Strategy<Value = Packet> + use<> {
    let limit = *limit;
    let whole = limit.tokens.clamp(1, LENGTH_MAX);
    let lengths = prop_oneof![
        3 => select(&[60_u64, 64, 590, 1_514]),
        2 => 1..=LENGTH_MAX,
        2 => 1..=whole,
        1 => Just(whole),
        1 => Just((whole / 3).max(1)),
    ];
    (gaps(), lengths).prop_map(move |(gap, length)| Packet {
        gap,
        length: limit.passable(length),
    })
}

/// A limit, the time of the first packet, and fewer than `count` packets.
pub fn traffic(
    limits: impl Strategy<Value = Limit>,
    count: usize,
) -> impl Strategy<Value = (Limit, u64, Vec<Packet>)> {
    limits.prop_flat_map(move |limit| (Just(limit), moments(), vec(packet(&limit), 1..count)))
}

/// Depth of a bucket, a time, the cost of a packet that it can hold, and its TAT. Every other bucket is within a few
/// ticks of just admitting the packet.
pub fn buckets() -> impl Strategy<Value = (u64, u64, u64, u64)> {
    (magnitude(TAU_MAX), any::<u64>())
        .prop_flat_map(|(tau, now)| (Just(tau), Just(now), magnitude(tau), 0..=tau, 0..8_u64))
        .prop_map(|(tau, now, cost, spent, nearly)| {
            let just = (tau - cost).saturating_add(nearly).min(tau);
            let spent = if nearly < 4 { just } else { spent };
            (tau, now, cost, now.wrapping_add(spent))
        })
}
