//! Computes the refill that overflowed between two readings of a bucket.
//!
//! Let C be this host's charges, A the charges added for other hosts, and e the elapsed time. A bucket spent by l is
//! then spent by l' = l + C + A - e + I. I is the refill that overflowed while the bucket was full. The other hosts'
//! packets would have used this refill if they had been charged on arrival, not a round later.

use limiter_common::arithmetic::bucket;

use super::shared_quota::{Fleet, ticks};

/// A reading of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The bucket's TAT, under the present quota.
    pub tat: u64,
    /// Epoch of the quota.
    pub epoch: u32,
    /// Time of the reading, in ticks. The TAT may have been read a little later. Charges in between are both in the
    /// TAT and in the counted packets, so that they cancel out.
    pub now: u64,
}

impl Reading {
    /// Ticks spent; more than the bucket's depth if the bucket is in debt.
    pub fn spent(&self) -> u64 {
        let ahead = self.tat.wrapping_sub(self.now);
        if ahead.cast_signed() <= 0 { 0 } else { ahead }
    }
}

/// Tracks the overflowed refill of one bucket.
#[derive(Clone, Copy, Debug)]
pub struct RefillTracker {
    /// The last reading.
    pub last: Reading,
    /// Ticks charged for other hosts since the last reading.
    added: u64,
    /// Overflowed refill that has not been used. It may be negative for a moment: a packet is in the TAT before it is
    /// in the counters.
    idle: i64,
}

impl RefillTracker {
    /// Starts with a reading.
    pub fn new(reading: Reading) -> Self {
        Self {
            last: reading,
            added: 0,
            idle: 0,
        }
    }

    /// The maximum ticks that this host can have charged until `reading`. None if the quota has changed.
    pub fn possible(&self, reading: &Reading) -> Option<u64> {
        if reading.epoch != self.last.epoch {
            return None;
        }
        let possible = self.unexplained(reading).max(0);
        Some(u64::try_from(possible).unwrap_or(u64::MAX))
    }

    /// The ticks that the bucket is spent by more than the elapsed time and other hosts' charges explain: this host's
    /// charges, and overflowed refill.
    fn unexplained(&self, reading: &Reading) -> i128 {
        let elapsed = i128::from(reading.now.wrapping_sub(self.last.now).cast_signed());
        let spent = i128::from(reading.spent()) - i128::from(self.last.spent());
        spent + elapsed - i128::from(self.added)
    }

    /// Adds a reading, after this host has charged `charged` ticks.
    pub fn advance(&mut self, reading: Reading, charged: u64) {
        let idle = self.unexplained(&reading) - i128::from(charged);
        self.idle = match reading.epoch == self.last.epoch {
            true => self.idle.saturating_add(i64::try_from(idle).unwrap_or(0)),
            false => 0,
        };
        (self.last, self.added) = (reading, 0);
    }

    /// Notes that `ticks` were charged for other hosts.
    pub fn add(&mut self, ticks: u64) {
        self.added = self.added.saturating_add(ticks);
    }

    /// Reduces a charge of `ticks` by the overflowed refill. Each tick of refill is used once. The rest is kept for
    /// later charges of the same time.
    pub fn less_idle(&mut self, ticks: u64) -> u64 {
        let idle = u64::try_from(self.idle).unwrap_or(0).min(ticks);
        self.idle -= idle.cast_signed();
        ticks - idle
    }

    /// Limits the overflowed refill to a plausible range. `unasked`: ticks since the store's last answer about this
    /// bucket.
    pub fn settle(&mut self, cost: u64, fleet: Fleet, unasked: u64) {
        /// Maximum packets that are in the TAT but not yet in the counters.
        const UNDER_WAY: i64 = 64;
        let signed = |ticks: u64| i64::try_from(ticks).unwrap_or(i64::MAX);
        // A lower value cannot come from refill: the bucket was changed from outside.
        let least = signed(cost).saturating_mul(-UNDER_WAY);
        // More refill is older than any packets that other hosts will report.
        let most = signed(ticks(fleet.staleness).saturating_add(unasked));
        self.idle = self.idle.min(most).max(least);
    }
}

/// The TAT with `ticks` more spent, up to a debt of `most` ticks spent at `now`, and the ticks added. None if that
/// debt is already reached.
pub fn charged(tat: u64, now: u64, ticks: u64, most: u64) -> Option<(u64, u64)> {
    let reading = Reading { tat, epoch: 0, now };
    let spent = reading.spent();
    let added = most.saturating_sub(spent).min(ticks);
    (added > 0).then(|| (bucket::time(now.wrapping_add(spent + added)), added))
}
