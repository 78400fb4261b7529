//! Models the new-source limit, from which a CPU leases a few tokens at a time.

use std::collections::HashMap;

use limiter_config::{Limit, NewSources};

use super::bucket::{BACK, Price, Quota, SKEW};

/// The tick at which a bucket of this depth is full after the clock was set back, or after a long time; none if neither
/// happened.
fn corrected(full_at: i128, depth: i128, now: i128) -> Option<i128> {
    match full_at - now - depth - SKEW {
        beyond if beyond > BACK => Some(now),
        beyond if beyond > 0 => Some(now + depth),
        _ => None,
    }
}

/// The limit as one CPU sees it.
#[derive(Clone, Debug)]
pub struct NewSourceLimit {
    /// The common bucket of all limits. It is also charged for tokens of a limit's own bucket, and so may be in debt.
    common: Quota,
    /// Quota of a limit's own bucket, if there are several limits.
    own: Option<Quota>,
    lease: i128,
    full_at: i128,
    /// Tick at which uncharged own buckets are full.
    begin: i128,
    /// Tick at which each limit's own bucket is full, if charged, by name; and leased tokens.
    own_full_at: HashMap<String, i128>,
    leased: HashMap<String, i128>,
}

impl NewSourceLimit {
    /// The new-source limit of `limits` limits, with at most `left` tokens in each bucket at `now`.
    pub fn new(limit: &NewSources, limits: usize, left: u64, now: i128) -> Self {
        let mut new = Self::full(limit, 1, limits, now);
        let token = new.common.token.0;
        new.full_at = now + (new.common.depth - token * i128::from(left)).max(0);
        new.begin = new.full_at;
        new
    }

    /// Second chances beside it: a quarter of the rate and the burst, full at the same tick.
    pub fn second(&self, limit: &NewSources, limits: usize) -> Self {
        Self::full(limit, 4, limits, self.full_at)
    }

    /// Changes the settings and the number of limits: spent tokens stay spent.
    pub fn change(
        &mut self,
        limit: &NewSources,
        part: i128,
        limits: usize,
        stays: impl Fn(&str) -> bool,
    ) {
        let changed = Self::full(limit, part, limits, self.full_at);
        self.own_full_at.retain(|name, _| stays(name));
        self.leased.retain(|name, _| stays(name));
        (self.common, self.own, self.lease) = (changed.common, changed.own, changed.lease);
    }

    fn full(limit: &NewSources, part: i128, limits: usize, now: i128) -> Self {
        // The default burst is 6.5536 seconds of the rate.
        let per_period = i128::from(limit.rate.amount) * 6_553_600_000;
        let burst = limit.burst.map_or_else(
            || (per_period / i128::from(limit.rate.period_ns)).max(1),
            i128::from,
        );
        let mut common = Quota::new(&Limit::new("new", limit.rate), 0, 1);
        let single = common.token.0;
        let token = single * part;
        common.token.0 = token;
        common.price = Price::Packet(token);
        common.depth = (single * burst).max(token);
        let limits = i128::try_from(limits).expect("a small number of limits");
        let mut own = None;
        if limits > 1 {
            // Each limit has a share of the rate and of an eighth of the burst, and at least one token.
            let price = token * limits;
            let depth = (common.depth / 8).max(price);
            common.depth = (common.depth - depth).max(token);
            own = Some(Quota {
                token: (price, 0),
                price: Price::Packet(price),
                depth,
                ..common
            });
        }
        Self {
            common,
            own,
            lease: (burst / part / 1_024 / limits.max(1)).clamp(1, 64),
            full_at: now,
            begin: now,
            own_full_at: HashMap::new(),
            leased: HashMap::new(),
        }
    }

    /// Tick at which the common bucket is full.
    pub fn full_at(&self) -> i128 {
        self.full_at
    }

    /// Leases tokens for the limit if needed. True if its lease has a token for one more bucket.
    pub fn reserve(&mut self, limit: &str, now: i128) -> bool {
        if self.leased.get(limit).is_none_or(|leased| *leased == 0) {
            let tokens = self.lease(limit, now);
            self.leased.insert(limit.to_owned(), tokens);
        }
        self.leased[limit] > 0
    }

    /// Takes the token.
    pub fn take(&mut self, limit: &str) {
        let leased = self.leased.get_mut(limit).expect("a token is reserved");
        assert!(*leased > 0, "a token is reserved");
        *leased -= 1;
    }

    /// Takes a whole lease, a single token, or none, from the common bucket, or else from the limit's own bucket.
    fn lease(&mut self, limit: &str, now: i128) -> i128 {
        // Tries again after a bucket was corrected.
        for _ in 0..3 {
            let tokens = self.try_to_lease(limit, now);
            if tokens > 0 || !self.correct(limit, now) {
                return tokens;
            }
        }
        0
    }

    /// Corrects a bucket that is further ahead than a clock that never goes back allows.
    fn correct(&mut self, limit: &str, now: i128) -> bool {
        let own_depth = self.own.map_or(0, |own| own.depth);
        let most = self.common.depth + own_depth;
        if let Some(full_at) = corrected(self.full_at, most, now) {
            self.full_at = full_at;
            return true;
        }
        let full_at = self.own_full_at.get(limit).copied().unwrap_or(self.begin);
        match corrected(full_at, own_depth, now) {
            Some(full_at) if self.own.is_some() => {
                self.own_full_at.insert(limit.to_owned(), full_at);
                true
            }
            _ => false,
        }
    }

    fn try_to_lease(&mut self, limit: &str, now: i128) -> i128 {
        for tokens in [self.lease, 1] {
            let cost = self.common.token.0 * tokens;
            let after = self.full_at.max(now) + cost;
            if after <= now + self.common.depth {
                self.full_at = after;
                return tokens;
            }
            let Some(own) = self.own else { continue };
            let full_at = self.own_full_at.get(limit).copied().unwrap_or(self.begin);
            let own_after = full_at.max(now) + own.token.0 * tokens;
            if own_after <= now + own.depth {
                self.own_full_at.insert(limit.to_owned(), own_after);
                self.full_at = after;
                return tokens;
            }
        }
        0
    }
}
