//! Compiles rate and burst to the kernel's units: ticks, or tokens of a fixed window.

use limiter_common::arithmetic::{
    bucket::{TAU_MAX, TICK_SHIFT},
    quota::{self, BY_BYTES, LENGTH_MAX, SHARED},
    rescale::Rescale,
    window::{TOKENS_MAX, Window},
};

use super::{Algorithm, Burst, Invalid, Limit, NewSources, Rate, Scope, Unit, ensure, invalid};

/// The exclusive bound of a byte's cost: its product with the longest packet stays below 2^63.
const BYTE_COST_MAX: u128 = 1 << (63 - LENGTH_MAX.trailing_zeros());
/// The most fractional bits. More make no difference to any rate.
const SHIFT_MAX: u32 = 40;
/// A change of quota measures spent tokens in this many parts of the burst.
const CHUNKS: u64 = 1 << 20;

/// The quota of a limit, for the kernel and for readers of its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitQuota {
    /// The quota in the kernel's units.
    pub in_kernel: quota::Quota,
    /// The cost of one token (a packet or a byte), in `1 << in_kernel.cost_shift`-th of a unit of `in_kernel.tau`.
    pub token: u64,
    /// The unit of a token.
    pub unit: Unit,
    /// Tokens of a full bucket.
    pub burst: u64,
}

impl LimitQuota {
    /// This quota with windows that begin `phase` nanoseconds earlier.
    pub fn at_phase(mut self, phase: u64) -> Self {
        if self.in_kernel.window.period != 0 {
            self.in_kernel.window.phase = phase;
        }
        self
    }
}

/// The quota of `limit`. `frame_max` is the longest frame, in bytes, that can arrive. A bucket that could never admit
/// such a frame is refused.
pub fn of_limit(limit: &Limit, frame_max: u64) -> Result<LimitQuota, Invalid> {
    let burst = limit.burst(frame_max)?;
    let in_kernel = match limit.algorithm {
        Algorithm::TokenBucket => token_bucket(limit, &burst)?,
        Algorithm::FixedWindow => fixed_window(&limit.rate, &burst)?,
    };
    let mut quota = LimitQuota {
        token: in_kernel.cost,
        in_kernel,
        unit: limit.rate.unit,
        burst: burst.tokens,
    };
    match limit.cost {
        Some(cost) if cost > quota.burst => {
            return Err(invalid!(
                "a cost of {cost} is more than a burst of {}: write a burst of at least {cost}, or a lower cost",
                quota.burst
            ));
        }
        Some(cost) => quota.in_kernel.cost = quota.token * cost,
        None if limit.rate.unit == Unit::Bytes && burst.tokens < frame_max => {
            return Err(invalid!(
                "a burst of {burst} could never admit a frame of {frame_max} bytes, which this interface may deliver: write at least {frame_max}b"
            ));
        }
        None => {}
    }
    if let Some(adaptive) = &limit.adaptive {
        let longest = quota.in_kernel.cost_of(frame_max);
        let least = |times: u64| match quota.unit {
            Unit::Packets => (limit.cost.unwrap_or(1) * times).to_string(),
            // The cost of a byte is rounded up.
            Unit::Bytes => format!("{}b", (frame_max + 1) * times),
        };
        quota.in_kernel = adaptive.of(quota.in_kernel, longest, least)?;
    }
    if let Some(hold) = limit.hold {
        quota.in_kernel = hold.hold(quota.in_kernel)?;
    }
    if let Some(max_delay) = limit.max_delay {
        quota.in_kernel = max_delay.pace(quota.in_kernel)?;
    }
    Ok(quota)
}

fn token_bucket(limit: &Limit, burst: &Burst) -> Result<quota::Quota, Invalid> {
    let rate = &limit.rate;
    // A quota with a hold has even costs and depths.
    let even = u64::from(limit.hold.is_some());
    let period = u128::from(rate.period_ns) << TICK_SHIFT;
    let mut in_kernel = match rate.unit {
        // Rounded up, so that rounding never admits more than wanted.
        Unit::Packets => quota::Quota {
            cost: u64::try_from(period.div_ceil(rate.amount.into())).unwrap_or(u64::MAX),
            ..quota::Quota::default()
        },
        Unit::Bytes => by_bytes(period * 8, rate.amount),
    };
    if rate.unit == Unit::Packets {
        in_kernel.cost += in_kernel.cost & even;
    }
    if limit.scope == Scope::Fleet {
        in_kernel.flags |= SHARED;
    }
    let tau = u128::from(in_kernel.cost) * u128::from(burst.tokens);
    let tau = tau.div_ceil(1 << in_kernel.cost_shift);
    let tau = tau + (tau & u128::from(even));
    in_kernel.tau = u64::try_from(tau).ok().filter(|tau| *tau <= TAU_MAX).ok_or_else(|| {
        invalid!("a burst of {burst} takes more than 208 days to refill at {rate}: write a smaller burst or a higher rate")
    })?;
    Ok(in_kernel)
}

/// The quota of a fixed window. It has no phase, because that belongs to the limit's slot.
fn fixed_window(rate: &Rate, burst: &Burst) -> Result<quota::Quota, Invalid> {
    let grant = rate.tokens_per_period();
    ensure!(
        grant > 0,
        "at {rate} a window would have less than one byte: write at least 8bit"
    );
    ensure!(
        grant.max(burst.tokens) <= TOKENS_MAX,
        "a fixed window holds at most {TOKENS_MAX} tokens: write a lower rate or burst, or algorithm = \"token-bucket\""
    );
    let window = Window {
        period: rate.period_ns,
        phase: 0,
        grant,
    };
    Ok(quota::Quota {
        tau: burst.tokens,
        cost: 1,
        flags: u32::from(rate.unit == Unit::Bytes) * BY_BYTES,
        window,
        ..quota::Quota::default()
    })
}

/// The quota of a bit rate. Its cost has as many fractional bits as keep the product with a length within 64 bits.
fn by_bytes(period: u128, bits: u64) -> quota::Quota {
    let cost = |shift: u32| (period << shift).div_ceil(u128::from(bits));
    let shift = (0..=SHIFT_MAX)
        .rev()
        .find(|shift| cost(*shift) < BYTE_COST_MAX)
        .unwrap_or(0);
    quota::Quota {
        cost: u64::try_from(cost(shift)).unwrap_or(u64::MAX),
        cost_shift: shift,
        flags: BY_BYTES,
        ..quota::Quota::default()
    }
}

/// The conversion of buckets from `old` to `new` at the moment `since` (nanoseconds). Spent tokens stay spent, and a
/// bucket is never deeper than the new burst. Packets and bytes do not compare: between them, the spent share of the
/// burst stays spent.
pub fn rescale(old: &LimitQuota, new: &LimitQuota, since: u64) -> Rescale {
    let (old_quota, new_quota) = (&old.in_kernel, &new.in_kernel);
    let chunk_from = (old_quota.tau / CHUNKS).max(1);
    let (numerator, denominator) = if old.unit == new.unit {
        (
            u128::from(new.token) << (SHIFT_MAX - new_quota.cost_shift),
            u128::from(old.token) << (SHIFT_MAX - old_quota.cost_shift),
        )
    } else {
        (u128::from(new_quota.tau), u128::from(old_quota.tau))
    };
    let (chunk_to, chunk_shift) = scaled(chunk_from, numerator, denominator);
    let chunks_most = (u128::from(new_quota.tau) << chunk_shift) / u128::from(chunk_to);
    Rescale {
        since,
        from: old_quota.into(),
        to: new_quota.into(),
        chunk_from,
        chunk_to,
        chunk_shift: chunk_shift.into(),
        chunks_most: u64::try_from(chunks_most)
            .unwrap_or(u64::MAX)
            .min(2 * CHUNKS),
    }
}

/// Returns `value × numerator / denominator`, rounded up, and its number of fractional bits. There are as many as
/// leave room to multiply by the number of chunks. A result without room for any exceeds every bucket, so its exact
/// size does not matter.
fn scaled(value: u64, numerator: u128, denominator: u128) -> (u64, u32) {
    const MOST: u128 = 1 << 42;
    // Neither side of the ratio may exceed 64 bits below. The bits shifted out are far below one part in a million of
    // the larger side. The error of the smaller side tends to refuse.
    let excess = numerator.max(denominator).ilog2().saturating_sub(63);
    let (numerator, denominator) = (
        (numerator >> excess) + u128::from(excess > 0),
        denominator >> excess,
    );
    let scaled = |shift: u32| {
        let product = u128::from(value)
            .checked_mul(numerator)?
            .checked_mul(1 << shift)?;
        product
            .checked_add(denominator)?
            .checked_sub(1)?
            .checked_div(denominator)
    };
    let fits = |shift: &u32| scaled(*shift).is_some_and(|value| value < MOST);
    let shift = (0..=SHIFT_MAX).rev().find(fits).unwrap_or(0);
    let value = scaled(shift).and_then(|value| u64::try_from(value).ok());
    (value.unwrap_or(u64::MAX).max(1), shift)
}

impl Limit {
    /// The burst in force on an interface with frames of up to `frame_max` bytes.
    pub fn burst(&self, frame_max: u64) -> Result<Burst, Invalid> {
        let default = || match self.algorithm {
            Algorithm::TokenBucket => Burst::default_for(&self.rate, frame_max),
            Algorithm::FixedWindow => Burst {
                tokens: self.rate.tokens_per_period(),
                unit: Some(self.rate.unit),
            },
        };
        self.burst.unwrap_or_else(default).for_rate(&self.rate)
    }

    /// The quota on an interface with frames of up to `frame_max` bytes.
    pub fn quota(&self, frame_max: u64) -> Result<LimitQuota, Invalid> {
        of_limit(self, frame_max)
    }
}

impl NewSources {
    /// The quota of the limit on new sources.
    pub fn quota(&self) -> Result<LimitQuota, Invalid> {
        ensure!(
            self.rate.unit == Unit::Packets,
            "new sources are counted, and {} is in bits: write a rate as in 10k/s, or none",
            self.rate
        );
        ensure!(
            self.burst != Some(0),
            "a burst of 0 would admit no new source: write at least 1, or leave it out"
        );
        self.limit().quota(1)
    }

    /// The limit as one on packets, each of which is a new source.
    pub(super) fn limit(&self) -> Limit {
        Limit {
            burst: Some(Burst {
                tokens: self.burst(),
                unit: None,
            }),
            ..Limit::new("new_sources", self.rate)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(rate: &str, burst: &str) -> Limit {
        Limit {
            burst: Some(burst.parse().unwrap()),
            ..Limit::new("default", rate.parse().unwrap())
        }
    }

    /// Spent tokens stay spent between a token bucket and a window too.
    #[test]
    fn spent_tokens_stay_spent_after_an_algorithm_change() {
        let since = 1_000_000_000_123;
        let bucket = of_limit(&limit("10/s", "40"), 1_522).unwrap();
        let window = Limit {
            algorithm: Algorithm::FixedWindow,
            ..limit("100/m", "150")
        };
        let window = of_limit(&window, 1_522).unwrap();
        let start = limiter_common::arithmetic::bucket::ticks(since);
        let word = rescale(&bucket, &window, since).apply(start + 7 * bucket.token);
        // Spent tokens are rounded up to a chunk, and then to a token.
        assert_eq!(window.in_kernel.left(word, since), 142, "7 are spent");
        let back = rescale(&window, &bucket, since).apply(word);
        let left = bucket.in_kernel.left(back, since) as f64 / bucket.token as f64;
        assert!((31.999..=32.0).contains(&left), "{left}");
        let much = window.in_kernel.window.word(since, 10);
        let empty = rescale(&window, &bucket, since).apply(much);
        assert_eq!(
            bucket.in_kernel.left(empty, since),
            0,
            "140 are spent, of 40"
        );
    }
}
