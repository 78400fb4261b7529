//! An exact token bucket over integers of any size, for comparison with the program's arithmetic.

pub mod draw;

use std::{env, fmt, slice};

use draw::Gap;
use limiter_common::arithmetic::{
    bucket::{Decision, TICK_SHIFT, ticks},
    quota::Quota,
    rescale::Rescale,
};
use limiter_config::{Burst, Invalid, Rate, Unit, limit_quota};
use num_bigint::BigInt;
use proptest::{
    prop_assert, prop_assert_eq,
    test_runner::{Config, RngSeed, TestCaseError},
};

/// A configuration with `cases` cases; the environment variable `PROPTEST_CASES` takes precedence, so that a longer
/// run needs no change here. Failures are not written to files beside the sources: a relevant one becomes its own
/// test.
///
/// An ordinary run draws equal cases each time, so that its result depends on the code alone; a longer run draws
/// others, unless `PROPTEST_RNG_SEED` is set.
pub fn cases(cases: u32) -> Config {
    let default = Config {
        failure_persistence: None,
        max_shrink_time: 20_000,
        ..Config::default()
    };
    if env::var_os("PROPTEST_CASES").is_some() {
        default
    } else {
        Config {
            cases,
            rng_seed: RngSeed::Fixed(0x117e),
            ..default
        }
    }
}

/// Checks that the decision on a bucket by the bounds `earliest` and `latest` of a time, if there is one, is the
/// decision at the exact time `now`, and that an exact time is bounds enough.
pub fn expect_exact_within(
    quota: &Quota,
    word: u64,
    cost: u64,
    (earliest, now, latest): (u64, u64, u64),
) -> Result<(), TestCaseError> {
    let decided = quota.decide(word, now, cost);
    match (quota.decide_within(word, earliest, latest, cost), decided) {
        (Some(Decision::Admit { tat }), _) => prop_assert_eq!(decided, Decision::Admit { tat }),
        (Some(Decision::Refuse { wait }), Decision::Refuse { wait: longer }) => {
            prop_assert!(wait <= longer || cost > quota.tau);
            prop_assert_eq!(quota.corrected(word, now), None);
        }
        (Some(Decision::Refuse { .. }), admitted) => prop_assert!(false, "{:?}", admitted),
        (None, _) => {}
    }
    if quota.corrected(word, now).is_none() {
        prop_assert_eq!(quota.decide_within(word, now, now, cost), Some(decided));
    }
    Ok(())
}

pub fn part(whole: u64, share: u32) -> u64 {
    let part = u128::from(whole) * u128::from(share) / u128::from(u32::MAX);
    u64::try_from(part).unwrap_or(whole)
}

/// Exact refill rate of a bucket: `tokens` in `ticks`.
#[derive(Clone, Debug)]
pub struct Pace {
    pub tokens: BigInt,
    pub ticks: BigInt,
}

impl Pace {
    /// The configured rate.
    pub fn of_rate(rate: &Rate) -> Self {
        let bits = if rate.unit == Unit::Bytes { 8 } else { 1 };
        let ticks = (BigInt::from(rate.period_ns) << TICK_SHIFT) * bits;
        Self {
            tokens: rate.amount.into(),
            ticks,
        }
    }

    /// The rate that the program was given: the cost of one token is rounded.
    pub fn of_quota(quota: &Quota) -> Self {
        Self {
            tokens: BigInt::from(1) << quota.cost_shift,
            ticks: quota.cost.into(),
        }
    }
}

/// A token bucket without rounding. It counts in grains: a grain is so small a part of a token that every pace gives a
/// whole number of grains per tick.
#[derive(Clone, Debug)]
pub struct Exact {
    /// Grains in a token.
    pub token: BigInt,
    /// Grains per tick.
    pub tick: BigInt,
    /// Grains in a full bucket.
    pub burst: BigInt,
    /// Grains missing from a full bucket; more than `burst` if more was charged than was there.
    pub spent: BigInt,
}

impl Exact {
    /// A full bucket for this pace only.
    pub fn full(pace: &Pace, tokens: u64) -> Self {
        Self::full_among(pace, tokens, slice::from_ref(pace))
    }

    /// A full bucket for the paces `all`, which include `pace`.
    pub fn full_among(pace: &Pace, tokens: u64, all: &[Pace]) -> Self {
        let token = all.iter().map(|pace| &pace.ticks).product();
        let zero = BigInt::ZERO;
        let mut bucket = Self {
            token,
            tick: zero.clone(),
            burst: zero.clone(),
            spent: zero,
        };
        bucket.change(pace, tokens);
        bucket
    }

    /// Changes pace and burst; spent tokens stay spent, up to the new burst.
    pub fn change(&mut self, pace: &Pace, tokens: u64) {
        self.tick = &self.token * &pace.tokens / &pace.ticks;
        self.burst = &self.token * tokens;
        self.spent = self.spent.clone().min(self.burst.clone());
    }

    pub fn refill(&mut self, ticks: u64) {
        self.spent = (&self.spent - &self.tick * ticks).max(BigInt::ZERO);
    }

    pub fn charge(&mut self, tokens: u64) {
        self.spent += &self.token * tokens;
    }

    /// Grains left; below 0 if more was charged than was there.
    pub fn left(&self) -> BigInt {
        &self.burst - &self.spent
    }
}

/// Most grains that a change may take from a bucket. Spent tokens are counted in 2^-20 of the old burst, each rounded
/// by 2^-41. The rounding of the ratio is below half a tick of the old quota or half a tick of the new one; the
/// rounding of the sum to a whole tick is added.
pub fn loss(old: &Exact, new: &Exact) -> BigInt {
    a_millionth(&old.burst) + &old.tick + 2 * &new.tick
}

/// Less than a millionth: 2^-20 and 2^-40.
pub fn a_millionth(burst: &BigInt) -> BigInt {
    (burst >> 20) + (burst >> 40)
}

/// A limit that the program accepts.
#[derive(Clone, Copy)]
pub struct Limit {
    pub rate: Rate,
    pub tokens: u64,
    /// The kernel's quota: `configured.in_kernel`.
    pub quota: Quota,
    pub configured: limit_quota::LimitQuota,
}

/// The quota of a token bucket with these settings.
pub fn configured(
    rate: &Rate,
    tokens: u64,
    frame_max: u64,
) -> Result<limit_quota::LimitQuota, Invalid> {
    let limit = limiter_config::Limit {
        burst: Some(Burst { tokens, unit: None }),
        ..limiter_config::Limit::new("default", *rate)
    };
    limit_quota::of_limit(&limit, frame_max)
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} burst {}", self.rate, self.tokens)
    }
}

impl Limit {
    /// The limit with the rate as text, on an interface for frames of one byte and more.
    pub fn of(rate: &str, tokens: u64) -> Self {
        let rate: Rate = rate
            .parse()
            .unwrap_or_else(|error| panic!("{rate}: {error}"));
        Self::with(rate, tokens)
    }

    pub fn with(rate: Rate, tokens: u64) -> Self {
        let configured = configured(&rate, tokens, 1)
            .unwrap_or_else(|error| panic!("a burst of {tokens} goes with {rate}: {error}"));
        Self {
            rate,
            tokens,
            quota: configured.in_kernel,
            configured,
        }
    }

    /// The change that carries buckets over when this limit becomes `new` at `since` nanoseconds.
    pub fn rescale(&self, new: &Self, since: u64) -> Rescale {
        limit_quota::rescale(&self.configured, &new.configured, since)
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

    /// The length, or the part of it that can pass: the configuration rules out longer packets.
    pub fn passable(&self, length: u64) -> u64 {
        if self.by_bytes() {
            length.min(self.tokens)
        } else {
            length
        }
    }

    /// True if more was taken from an exact bucket than it had. For packets, that is below zero. The depth of a bucket
    /// of bytes is rounded up to a tick, so that a packet as long as the burst fits: it may be charged less than a
    /// tick's worth more, which is less than half a byte.
    pub fn is_overdrawn(&self, bucket: &Exact) -> bool {
        let left = bucket.left();
        if self.by_bytes() {
            left <= -&bucket.tick
        } else {
            left < BigInt::ZERO
        }
    }
}

/// A bucket as the program keeps it: its TAT changes when a packet is admitted, or when no packet can have written it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub quota: Quota,
    pub tat: u64,
}

impl Program {
    /// A bucket that is full at time `now`, in nanoseconds.
    pub fn full(quota: Quota, now: u64) -> Self {
        Self {
            quota,
            tat: quota.full(now),
        }
    }

    /// Ticks from `now`, in nanoseconds, until a packet passes.
    pub fn wait(&self, now: u64, length: u64) -> u64 {
        match self.quota.decide(self.tat, now, self.quota.cost_of(length)) {
            Decision::Admit { .. } => 0,
            Decision::Refuse { wait } => wait,
        }
    }

    /// True if a packet passes at time `now`, in nanoseconds.
    pub fn admits(&mut self, now: u64, length: u64) -> bool {
        match self.quota.decide(self.tat, now, self.quota.cost_of(length)) {
            Decision::Admit { tat } => {
                self.tat = tat;
                true
            }
            Decision::Refuse { .. } => {
                self.tat = self.quota.corrected(self.tat, now).unwrap_or(self.tat);
                false
            }
        }
    }
}

/// The program's bucket and an exact one, which is charged with the program's admissions.
pub struct Pair {
    pub limit: Limit,
    pub program: Program,
    pub exact: Exact,
    /// The latest reading of the clock, in nanoseconds.
    pub now: u64,
}

impl Pair {
    pub fn full(limit: Limit, now: u64) -> Self {
        let exact = Exact::full(&limit.pace(), limit.tokens);
        Self {
            limit,
            program: Program::full(limit.quota, now),
            exact,
            now,
        }
    }

    /// Waits before a packet that is offered next, at most `most` nanoseconds.
    pub fn wait(&mut self, gap: Gap, length: u64, most: u64) {
        let wait = self.program.wait(self.now, length);
        let nanoseconds = gap.nanoseconds(&self.program.quota, length, wait).min(most);
        self.now += nanoseconds;
        self.exact.refill(ticks(nanoseconds));
    }

    /// True if the program admits a packet now.
    pub fn admits(&mut self, length: u64) -> bool {
        self.admits_behind(0, length)
    }

    /// True if the program admits a packet on a CPU with a clock that is `behind` nanoseconds behind a previous
    /// reading.
    pub fn admits_behind(&mut self, behind: u64, length: u64) -> bool {
        let admitted = self.program.admits(self.now - behind, length);
        if admitted {
            self.exact.charge(self.limit.tokens_of(length));
        }
        admitted
    }

    pub fn is_overdrawn(&self) -> bool {
        self.limit.is_overdrawn(&self.exact)
    }
}
