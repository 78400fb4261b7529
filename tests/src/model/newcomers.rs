//! The limit on new sources, of which a CPU leases a few at a time.

use limiter_user::config::{Limit, NewSources};

use super::bucket::{State, Terms};

/// Seen from one CPU.
#[derive(Clone, Debug)]
pub struct Newcomers {
    one: Terms,
    lease: i128,
    bucket: State,
    leased: i128,
}

impl Newcomers {
    /// With no more than `left` tokens at `now`.
    pub fn new(limit: &NewSources, left: u64, now: i128) -> Self {
        // 6.5536 seconds' worth, where nothing is written.
        let per_period = i128::from(limit.rate.amount) * 6_553_600_000;
        let burst = limit.burst.map_or_else(
            || (per_period / i128::from(limit.rate.period_ns)).max(1),
            i128::from,
        );
        let mut one = Terms::new(&Limit::new("new", limit.rate), 0, 1);
        one.depth = one.token.0 * burst;
        let spent = one.token.0 * (burst - i128::from(left)).max(0);
        Self {
            one,
            lease: (burst / 1_024).clamp(1, 64),
            bucket: State::FullAt(now + spent),
            leased: 0,
        }
    }

    /// When the bucket will be full, in ticks.
    pub fn full_at(&self) -> i128 {
        match self.bucket {
            State::FullAt(full) => full,
            State::Left { .. } => unreachable!("it is a token bucket"),
        }
    }

    /// Whether one more bucket may be made: from the lease, or else from a new one, or else, where there
    /// is not enough for that, from the bucket itself.
    pub fn admit(&mut self, now: i128) -> bool {
        if self.leased == 0 && !self.lease(now) {
            return false;
        }
        self.leased -= 1;
        true
    }

    /// Whether so many may be made, which stay in the lease.
    pub fn reserve(&mut self, now: i128, buckets: usize) -> bool {
        let buckets = i128::try_from(buckets).expect("few");
        while self.leased < buckets {
            if !self.lease(now) {
                return false;
            }
        }
        true
    }

    fn lease(&mut self, now: i128) -> bool {
        let lease = Terms {
            price: super::bucket::Price::Packet(self.one.token.0 * self.lease),
            ..self.one
        };
        // Only the last of the two may put right what a clock that was set back has left.
        let whole = lease.admits(&mut self.bucket.clone(), now, 0);
        let (terms, tokens) = if whole {
            (lease, self.lease)
        } else {
            (self.one, 1)
        };
        if !terms.admits(&mut self.bucket, now, 0) {
            return false;
        }
        terms.charge(&mut self.bucket, now, 0);
        self.leased += tokens;
        true
    }
}
