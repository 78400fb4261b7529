//! Computes bounds on a bucket's tokens that hold at any time within a step.

use super::config::Limit;

/// Readings of the clock, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// The kernel's last tick before the step. The program may refuse a packet by the time of that tick.
    pub tick: u64,
    /// Right before the step.
    pub before: u64,
    /// Right after the step.
    pub after: u64,
}

/// A bucket with `least` to `most` tokens at `since`.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    most: f64,
    least: f64,
    since: u64,
    /// Changes of the limit's quota since the last packet.
    missed: u32,
}

/// Maximum loss by rounding, as a part of the rate, and as a part of the burst at each quota change. Rounding never
/// gives tokens.
const OF_RATE: f64 = 1e-5;
const OF_BURST: f64 = 1e-5;
/// Number of changes that the program remembers.
const REMEMBERED: u32 = 8;

fn seconds(from: u64, end: u64) -> f64 {
    end.saturating_sub(from) as f64 / 1e9
}

impl Bucket {
    /// A full bucket.
    pub fn full(limit: &Limit, since: u64) -> Self {
        let burst = limit.burst() as f64;
        Self {
            most: burst,
            least: burst,
            since,
            missed: 0,
        }
    }

    pub fn most(&self, limit: &Limit, now: u64) -> f64 {
        (self.most + limit.per_second() * seconds(self.since, now)).min(limit.burst() as f64)
    }

    pub fn least(&self, limit: &Limit, now: u64) -> f64 {
        if self.missed > REMEMBERED {
            return 0.0;
        }
        let refilled = limit.per_second() * (1.0 - OF_RATE) * seconds(self.since, now);
        (self.least + refilled).min(limit.burst() as f64)
    }

    /// Bounds on the number of `sent` packets that pass: least and most.
    pub fn bounds(&self, limit: &Limit, moments: &Moments, sent: u64) -> (u64, u64) {
        let least = self.least(limit, moments.tick).max(0.0) as u64;
        let most = self.most(limit, moments.before)
            + limit.per_second() * seconds(moments.before, moments.after)
            + 1e-6;
        (least.min(sent), (most as u64).min(sent))
    }

    /// Charges `passed` packets.
    pub fn took(&mut self, limit: &Limit, moments: &Moments, passed: u64) {
        let passed = passed as f64;
        let gained = limit.per_second() * seconds(moments.before, moments.after);
        let most = self.most(limit, moments.before) + gained - passed;
        *self = Self {
            most: most.clamp(0.0, limit.burst() as f64),
            least: self.least(limit, moments.tick) - passed,
            since: moments.after,
            missed: 0,
        };
        self.least = self.least.max(0.0);
    }

    /// Changes the limit's quota: spent tokens stay spent.
    pub fn changed(&mut self, old: &Limit, new: &Limit, moments: &Moments) {
        let (burst, deeper) = (old.burst() as f64, new.burst() as f64);
        let carried = |tokens: f64| (deeper - (burst - tokens)).max(0.0);
        let faster = old.per_second().max(new.per_second());
        let most = carried(self.most(old, moments.before))
            + faster * seconds(moments.before, moments.after);
        let least = self.least(old, moments.tick);
        let rounding = if least < burst {
            OF_BURST * burst.max(deeper)
        } else {
            0.0
        };
        *self = Self {
            most: most.min(deeper),
            least: (carried(least) - rounding).clamp(0.0, deeper),
            since: moments.after,
            missed: self.missed + 1,
        };
    }
}
