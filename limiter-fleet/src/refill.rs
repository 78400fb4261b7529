//! How much of a bucket's refill ran over between two looks at it.
//!
//! With C charged by this host, A added for others, and e the time that has passed, a bucket that was spent
//! by l is spent by l' = l + C + A - e + I: I is what was refilled while it was full. The others' packets would
//! have used it, had they been charged when they came and not a round later.

use limiter_common::arithmetic::bucket;

use super::quota::{Fleet, ticks};

/// A look at a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Its word, on the present terms.
    pub word: u64,
    /// Of which terms.
    pub epoch: u32,
    /// When, in ticks. The word may have been read a little later: what was charged in between is in it and among the
    /// packets that were charged, so that it cancels out.
    pub now: u64,
}

impl Look {
    /// How much is spent, in ticks; more than the bucket's depth where it is in debt.
    #[must_use]
    pub fn spent(&self) -> u64 {
        let ahead = self.word.wrapping_sub(self.now);
        if ahead.cast_signed() <= 0 { 0 } else { ahead }
    }
}

/// Of one bucket.
#[derive(Clone, Copy, Debug)]
pub struct RefillTracker {
    last: Look,
    /// Ticks that were added since the last look.
    added: u64,
    /// Refill that ran over and was not asked for yet. Less than none for a moment: a packet is in the word before
    /// it is among those that were admitted.
    idle: i64,
}

impl RefillTracker {
    /// Begins with a look.
    #[must_use]
    pub fn new(look: Look) -> Self {
        Self {
            last: look,
            added: 0,
            idle: 0,
        }
    }

    /// The last look.
    #[must_use]
    pub fn last(&self) -> &Look {
        &self.last
    }

    /// The most that this host can have charged until `look`, in ticks; nothing where that cannot be said, because
    /// the terms have changed.
    #[must_use]
    pub fn possible(&self, look: &Look) -> Option<u64> {
        if look.epoch != self.last.epoch {
            return None;
        }
        let elapsed = i128::from(look.now.wrapping_sub(self.last.now).cast_signed());
        let spent = i128::from(look.spent()) - i128::from(self.last.spent());
        let possible = (spent + elapsed - i128::from(self.added)).max(0);
        Some(u64::try_from(possible).unwrap_or(u64::MAX))
    }

    /// Looks again, after this host has charged `charged` ticks.
    pub fn advance(&mut self, look: Look, charged: u64) {
        let (last, added) = (self.last, self.added);
        (self.last, self.added) = (look, 0);
        if look.epoch != last.epoch {
            self.idle = 0;
            return;
        }
        let elapsed = i128::from(look.now.wrapping_sub(last.now).cast_signed());
        let spent = i128::from(look.spent()) - i128::from(last.spent());
        let idle = spent + elapsed - i128::from(charged) - i128::from(added);
        let idle = i64::try_from(idle).unwrap_or(0);
        self.idle = self.idle.saturating_add(idle);
    }

    /// `ticks` were added for others.
    pub fn add(&mut self, ticks: u64) {
        self.added = self.added.saturating_add(ticks);
    }

    /// What is left of a charge of `ticks` after what ran over. That serves once: what the charge did not need is kept
    /// for what is heard later of the same time.
    pub fn less_idle(&mut self, ticks: u64) -> u64 {
        let idle = u64::try_from(self.idle).unwrap_or(0).min(ticks);
        self.idle -= idle.cast_signed();
        ticks - idle
    }

    /// Keeps what ran over within what can be explained, where the store was last heard of this bucket `unasked` ticks
    /// ago.
    pub fn settle(&mut self, cost: u64, fleet: Fleet, unasked: u64) {
        /// Packets that may be under way: in the word, and not among those that were admitted.
        const UNDER_WAY: i64 = 64;
        let signed = |ticks: u64| i64::try_from(ticks).unwrap_or(i64::MAX);
        // Less than that was never refilled here: somebody has changed the bucket.
        let least = signed(cost).saturating_mul(-UNDER_WAY);
        // More than that is older than what the others will be heard of.
        let most = signed(ticks(fleet.staleness).saturating_add(unasked));
        self.idle = self.idle.min(most).max(least);
    }
}

/// The word with `ticks` more spent, no deeper in debt than `most` ticks spent at `now`; nothing where it is there
/// already.
#[must_use]
pub fn charged(word: u64, now: u64, ticks: u64, most: u64) -> Option<(u64, u64)> {
    let look = Look {
        word,
        epoch: 0,
        now,
    };
    let spent = look.spent();
    let added = most.saturating_sub(spent).min(ticks);
    (added > 0).then(|| (bucket::time(now.wrapping_add(spent + added)), added))
}
