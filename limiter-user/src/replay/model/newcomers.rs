//! The newcomer limit, as one CPU sees it.

use limiter_common::{
    bucket::{self, Decision, SKEW_MAX},
    rules::{self, LIMITS_MAX},
};

/// Its bucket, and the lease that has been taken of it.
#[derive(Clone, Copy, Debug)]
pub struct Newcomers {
    limit: rules::Newcomers,
    word: u64,
    lease: u64,
}

impl Newcomers {
    /// With a bucket that is full at `begin` (nanoseconds).
    pub fn new(limit: rules::Newcomers, begin: u64) -> Self {
        Self {
            limit,
            word: bucket::time(bucket::ticks(begin)),
            lease: 0,
        }
    }

    /// Whether one more bucket may be made at `now` (nanoseconds).
    pub fn admit(&mut self, now: u64) -> bool {
        if self.limit.cost == 0 {
            return true;
        }
        if self.lease == 0 {
            self.lease = self.take_lease(now);
        }
        let admitted = self.lease > 0;
        self.lease = self.lease.saturating_sub(1);
        admitted
    }

    /// Whether `buckets` more may be made: they are then in the lease. What there is of them stays there.
    pub fn reserve(&mut self, now: u64, buckets: u64) -> bool {
        if self.limit.cost == 0 {
            return true;
        }
        for _ in 0..=LIMITS_MAX {
            if self.lease >= buckets {
                return true;
            }
            let taken = self.take_lease(now);
            if taken == 0 {
                return false;
            }
            self.lease += taken;
        }
        false
    }

    /// As many as a CPU takes at once; a single one where there are not so many, or none.
    fn take_lease(&mut self, now: u64) -> u64 {
        let rules::Newcomers { tau, cost, lease } = self.limit;
        let now = bucket::ticks(now);
        for tokens in [lease, 1] {
            if let Decision::Admit { tat } = bucket::decide(self.word, now, cost * tokens, tau) {
                self.word = tat;
                return tokens;
            }
        }
        self.word = bucket::corrected(self.word, now, tau, SKEW_MAX).unwrap_or(self.word);
        0
    }
}
