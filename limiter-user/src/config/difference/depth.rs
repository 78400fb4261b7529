//! Differences of a rate and its burst, with their direction.

use std::{cmp::Ordering, time::Duration};

use crate::config::{Algorithm, Limit, NewSources, Rate, Unit};

/// A rate and the burst in force with it.
pub struct Depth {
    rate: Rate,
    tokens: u64,
    burst: String,
    algorithm: Algorithm,
}

impl Depth {
    pub fn of_limit(limit: &Limit, frame_max: u64) -> Self {
        let burst = limit.burst(frame_max).ok();
        let shown = burst.map(|burst| burst.to_string()).unwrap_or_default();
        let by_rate = if limit.burst.is_none() {
            " by the rate"
        } else {
            ""
        };
        Self {
            rate: limit.rate,
            tokens: burst.map_or(0, |burst| burst.tokens),
            burst: format!("{shown}{by_rate}"),
            algorithm: limit.algorithm,
        }
    }

    pub fn of_new_sources(limit: NewSources) -> Self {
        Self {
            rate: limit.rate,
            tokens: limit.burst(),
            burst: limit.burst().to_string(),
            algorithm: Algorithm::TokenBucket,
        }
    }

    /// One line for each difference of rate and burst, and one for an unchanged burst with a new rate.
    pub fn change(&self, new: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        if self.rate != new.rate {
            let direction = direction(new.rate.compare(&self.rate));
            changes.push(format!("rate {} -> {}{direction}", self.rate, new.rate));
        }
        if self.burst != new.burst {
            let same_unit = self.rate.unit == new.rate.unit;
            let direction = direction(same_unit.then(|| new.tokens.cmp(&self.tokens)));
            changes.push(format!("burst {} -> {}{direction}", self.burst, new.burst));
        } else if self.rate != new.rate {
            changes.push(format!(
                "burst stays {}: an empty bucket is full again after {}",
                new.burst,
                humantime::format_duration(new.refills_in())
            ));
        }
        changes
    }

    /// Time until an empty bucket is full, rounded up to a millisecond.
    fn refills_in(&self) -> Duration {
        const MILLISECOND: u128 = 1_000_000;
        let Rate {
            amount,
            period_ns,
            unit,
        } = self.rate;
        let per_token = if unit == Unit::Bytes { 8 } else { 1 };
        let wanted = u128::from(self.tokens) * per_token;
        let (amount, period) = (u128::from(amount), u128::from(period_ns));
        let nanoseconds = match self.algorithm {
            Algorithm::TokenBucket => (wanted * period).div_ceil(amount),
            Algorithm::FixedWindow => wanted.div_ceil(amount) * period,
        };
        let milliseconds = nanoseconds.div_ceil(MILLISECOND);
        Duration::from_millis(u64::try_from(milliseconds).unwrap_or(u64::MAX))
    }
}

fn direction(way: Option<Ordering>) -> &'static str {
    match way {
        Some(Ordering::Less) => " (tighter)",
        Some(Ordering::Greater) => " (looser)",
        _ => "",
    }
}
