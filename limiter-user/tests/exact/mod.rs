//! An exact token bucket over whole numbers of any size, to hold the program's arithmetic against,
//! and what the properties draw: limits, moments and packets.

// Each test binary compiles this for itself and uses its own part of it.
#![allow(dead_code)]

use std::{env, fmt};

use limiter_common::{
    bucket::{Decision, TAU_MAX, TICK_SHIFT, decide, ticks},
    limit::{LENGTH_MAX, Terms},
};
use limiter_user::config::{Burst, Rate, Unit, terms::terms};
use num_bigint::BigInt;
use proptest::{prelude::*, test_runner::Config};

/// A configuration with `cases` cases; the environment variable `PROPTEST_CASES` takes precedence, so
/// that a longer run needs no change here. Failures are not written to files beside the sources: one
/// that matters becomes a test of its own.
pub fn cases(cases: u32) -> Config {
    let default = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if env::var_os("PROPTEST_CASES").is_some() {
        default
    } else {
        Config { cases, ..default }
    }
}

/// Exactly how fast a bucket refills: `tokens` in `ticks`.
#[derive(Clone, Debug)]
pub struct Pace {
    pub tokens: BigInt,
    pub ticks: BigInt,
}

impl Pace {
    /// What was configured.
    pub fn of_rate(rate: &Rate) -> Self {
        let bits = if rate.unit == Unit::Bytes { 8 } else { 1 };
        let ticks = (BigInt::from(rate.period_ns) << TICK_SHIFT) * bits;
        Self {
            tokens: rate.amount.into(),
            ticks,
        }
    }

    /// What the program was given: the same but for the rounding of one token's cost.
    pub fn of_terms(terms: &Terms) -> Self {
        Self {
            tokens: BigInt::from(1) << terms.cost_shift,
            ticks: terms.cost.into(),
        }
    }
}

/// A token bucket without rounding. It counts in grains: so small a part of a token that every pace it
/// is used with brings a whole number of them in a tick.
#[derive(Clone, Debug)]
pub struct Exact {
    /// Grains in a token.
    pub token: BigInt,
    /// Grains that a tick brings.
    pub tick: BigInt,
    pub burst: BigInt,
    /// What is missing to a full bucket; more than `burst` once more was charged than was there.
    pub spent: BigInt,
}

impl Exact {
    /// A full bucket that will be used with no other pace.
    pub fn full(pace: &Pace, tokens: u64) -> Self {
        Self::full_among(pace, tokens, std::slice::from_ref(pace))
    }

    /// A full bucket that will be used with the paces `all`, of which `pace` is the first.
    pub fn full_among(pace: &Pace, tokens: u64, all: &[Pace]) -> Self {
        let token = all.iter().map(|pace| &pace.ticks).product();
        let mut bucket = Self {
            token,
            tick: 0.into(),
            burst: 0.into(),
            spent: 0.into(),
        };
        bucket.change(pace, tokens);
        bucket
    }

    /// From now on another pace and burst; what was spent stays spent, as far as there is room.
    pub fn change(&mut self, pace: &Pace, tokens: u64) {
        self.tick = &self.token * &pace.tokens / &pace.ticks;
        self.burst = &self.token * tokens;
        self.spent = self.spent.clone().min(self.burst.clone());
    }

    pub fn refill(&mut self, ticks: u64) {
        self.spent = (&self.spent - &self.tick * ticks).max(0.into());
    }

    pub fn charge(&mut self, tokens: u64) {
        self.spent += &self.token * tokens;
    }

    /// Grains left; below 0 if more was charged than was there.
    pub fn left(&self) -> BigInt {
        &self.burst - &self.spent
    }
}

/// A limit that the program accepts.
#[derive(Clone, Copy)]
pub struct Limit {
    pub rate: Rate,
    pub tokens: u64,
    pub terms: Terms,
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} burst {}", self.rate, self.tokens)
    }
}

impl Limit {
    /// The limit that is written so, in a table for frames of one byte and more.
    pub fn of(rate: &str, tokens: u64) -> Self {
        let rate: Rate = rate
            .parse()
            .unwrap_or_else(|error| panic!("{rate}: {error}"));
        let terms = terms(&rate, &Burst { tokens, unit: None }, 1);
        Self {
            rate,
            tokens,
            terms: terms.unwrap_or_else(|error| panic!("{rate}: {error}")),
        }
    }

    pub fn by_bytes(&self) -> bool {
        self.rate.unit == Unit::Bytes
    }

    pub fn pace(&self) -> Pace {
        Pace::of_rate(&self.rate)
    }

    /// Tokens that a packet takes.
    pub fn tokens_of(&self, length: u64) -> u64 {
        if self.by_bytes() { length } else { 1 }
    }

    /// By how many grains less than 0 an exact bucket may be charged: not at all for packets. The depth
    /// of a bucket of bytes is rounded up to a tick, so that a packet as long as the burst fits; that
    /// is less than a tick's worth, which is less than half a byte.
    pub fn is_overdrawn(&self, bucket: &Exact) -> bool {
        let left = bucket.left();
        if self.by_bytes() {
            left <= -&bucket.tick
        } else {
            left < BigInt::ZERO
        }
    }
}

/// A number of any magnitude, from 1 to `most`.
pub fn magnitude(most: u64) -> impl Strategy<Value = u64> + Clone {
    (1..=most, 0..=most.ilog2()).prop_map(|(value, shift)| (value >> shift).max(1))
}

fn read(text: String) -> Rate {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Everything that is written as a rate of packets, 1/208d to 1G/s.
pub fn packet_rates() -> impl Strategy<Value = Rate> {
    let units = prop::sample::select(vec!["s", "m", "h", "d"]);
    let any = (magnitude(1_000_000_000), magnitude(208), units)
        .prop_map(|(amount, number, unit)| format!("{amount}/{number}{unit}"));
    let known = prop::sample::select(vec![
        "1/d",
        "1/208d",
        "5/h",
        "10/m",
        "5/s",
        "1M/s",
        "148800k/s",
        "148809524/s",
        "1G/s",
    ]);
    prop_oneof![2 => any, 1 => known.prop_map(str::to_owned)].prop_map(read)
}

/// Everything that is written as a rate of bits, 1 bit/s to 1 tbit/s.
pub fn bit_rates() -> impl Strategy<Value = Rate> {
    let any = magnitude(1_000_000_000_000).prop_map(|bits| format!("{bits}bit"));
    let known = prop::sample::select(vec![
        "1bit", "64kbit", "10mbit", "1gbit", "400gbit", "1tbit",
    ]);
    prop_oneof![2 => any, 1 => known.prop_map(str::to_owned)].prop_map(read)
}

pub fn rates() -> impl Strategy<Value = Rate> {
    prop_oneof![packet_rates(), bit_rates()]
}

/// A rate with any burst that it may have, the largest among them.
pub fn limits_of(rates: impl Strategy<Value = Rate>) -> impl Strategy<Value = Limit> {
    (rates, magnitude(TAU_MAX), prop::bool::weighted(0.1)).prop_map(|(rate, tokens, deepest)| {
        let of = |tokens| {
            terms(&rate, &Burst { tokens, unit: None }, 1)
                .ok()
                .map(|terms| (tokens, terms))
        };
        let one = of(1)
            .unwrap_or_else(|| panic!("a burst of 1 goes with {rate}"))
            .1;
        // In 128 bits, as `terms` itself: the product of the cost and a burst that fits is below 2^102.
        let most = (u128::from(TAU_MAX) << one.cost_shift) / u128::from(one.cost);
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let tokens = if deepest { most } else { tokens.min(most) };
        let (tokens, terms) =
            of(tokens).unwrap_or_else(|| panic!("a burst of {tokens} goes with {rate}"));
        Limit {
            rate,
            tokens,
            terms,
        }
    })
}

pub fn limits() -> impl Strategy<Value = Limit> {
    limits_of(rates())
}

/// Readings of the kernel's clock, in nanoseconds. Half of them are less than a second or an hour before
/// the clock in ticks wraps.
pub fn moments() -> impl Strategy<Value = u64> {
    let before_wrap = |most: u64| (1..=most).prop_map(|before| (1 << (64 - TICK_SHIFT)) - before);
    prop_oneof![
        2 => 0..1_u64 << 60,
        1 => before_wrap(1_000),
        1 => before_wrap(3_600_000_000_000),
    ]
}

/// 1.14 years in nanoseconds: as far as two moments can be told apart.
pub const IDLE_MAX: u64 = 1 << (63 - TICK_SHIFT);

/// How long after the one before a packet comes, in terms of the limit so that any limit is tried where
/// it matters.
#[derive(Clone, Copy, Debug)]
pub enum Gap {
    None,
    Nanoseconds(u64),
    /// Per cent of the packet's cost.
    Cost(u64),
    /// Per cent of the bucket's depth.
    Depth(u64),
}

impl Gap {
    pub fn nanoseconds(self, cost: u64, tau: u64) -> u64 {
        let share = |ticks: u64, percent: u64| {
            u64::try_from(u128::from(ticks) * u128::from(percent) / 100 >> TICK_SHIFT)
                .unwrap_or(u64::MAX)
        };
        match self {
            Self::None => 0,
            Self::Nanoseconds(nanoseconds) => nanoseconds,
            Self::Cost(percent) => share(cost, percent),
            Self::Depth(percent) => share(tau, percent),
        }
        .min(IDLE_MAX)
    }
}

pub fn gaps() -> impl Strategy<Value = Gap> {
    prop_oneof![
        5 => Just(Gap::None),
        2 => (1..2_000_u64).prop_map(Gap::Nanoseconds),
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

/// Packets; those that are counted in bytes are of usual lengths, of any, or share the burst among few.
pub fn packets(limit: &Limit, count: usize) -> impl Strategy<Value = Vec<Packet>> + use<> {
    let whole = limit.tokens.clamp(1, LENGTH_MAX);
    let lengths = prop_oneof![
        3 => prop::sample::select(vec![60_u64, 64, 590, 1_514]),
        2 => 1..=LENGTH_MAX,
        2 => 1..=whole,
        1 => Just(whole),
        1 => Just((whole / 3).max(1)),
    ];
    let packet = (gaps(), lengths).prop_map(|(gap, length)| Packet { gap, length });
    prop::collection::vec(packet, 1..count)
}

/// A limit, the moment of the first packet and the packets.
pub fn traffic(
    limits: impl Strategy<Value = Limit>,
    count: usize,
) -> impl Strategy<Value = (Limit, u64, Vec<Packet>)> {
    limits.prop_flat_map(move |limit| (Just(limit), moments(), packets(&limit, count)))
}

/// A bucket as the program keeps it: a word that changes only where a packet is admitted.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub terms: Terms,
    pub tat: u64,
}

impl Program {
    /// A bucket that is full at a reading of the clock, in nanoseconds.
    pub fn full(terms: Terms, now: u64) -> Self {
        Self {
            terms,
            tat: ticks(now),
        }
    }

    /// Whether a packet passes at a reading of the clock, in nanoseconds.
    pub fn admits(&mut self, now: u64, length: u64) -> bool {
        match decide(
            self.tat,
            ticks(now),
            self.terms.cost_of(length),
            self.terms.tau,
        ) {
            Decision::Admit { tat } => {
                self.tat = tat;
                true
            }
            Decision::Refuse { .. } => false,
        }
    }
}
