//! The newcomer limit, as one CPU sees it.

use limiter_common::{bucket, key::SLOTS, rules, share::Step};

/// Its buckets, and the leases that have been taken of them.
#[derive(Clone, Debug)]
pub struct Newcomers {
    limit: rules::Newcomers,
    common: u64,
    /// By slot.
    own: [u64; SLOTS as usize],
    leases: [u64; SLOTS as usize],
}

impl Newcomers {
    /// With buckets that are full at `begin` (nanoseconds).
    pub fn new(limit: rules::Newcomers, begin: u64) -> Self {
        let full = bucket::time(bucket::ticks(begin));
        Self {
            limit,
            common: full,
            own: [full; SLOTS as usize],
            leases: [0; SLOTS as usize],
        }
    }

    /// Whether the limit in `slot` may make one more bucket at `now` (nanoseconds): its lease has a token then.
    pub fn reserve(&mut self, slot: u32, now: u64) -> bool {
        if self.limit.cost == 0 {
            return true;
        }
        let slot = slot as usize % self.leases.len();
        if self.leases[slot] == 0 {
            self.leases[slot] = self.take_lease(slot, bucket::ticks(now));
        }
        self.leases[slot] > 0
    }

    /// Takes the token that was reserved.
    pub fn take(&mut self, slot: u32) {
        let slot = slot as usize % self.leases.len();
        self.leases[slot] = self.leases[slot].saturating_sub(1);
    }

    /// As many tokens as a CPU takes at once; a single one where there are not so many, or none.
    fn take_lease(&mut self, slot: usize, now: u64) -> u64 {
        // Again, where a word was put right that a clock which was set back has left far ahead.
        for _ in 0..3 {
            match self.limit.take(self.common, self.own[slot], now) {
                Step::Common { tokens, tat } => {
                    self.common = tat;
                    return tokens;
                }
                Step::Own { tokens, tat } => {
                    self.own[slot] = tat;
                    self.common = self.limit.owed(self.common, now, tokens);
                    return tokens;
                }
                Step::Nothing if !self.correct(slot, now) => return 0,
                Step::Nothing => {}
            }
        }
        0
    }

    fn correct(&mut self, slot: usize, now: u64) -> bool {
        if let Some(corrected) = self.limit.corrected(self.common, now) {
            self.common = corrected;
            return true;
        }
        match self.limit.own_corrected(self.own[slot], now) {
            Some(corrected) if self.limit.own_cost != 0 => {
                self.own[slot] = corrected;
                true
            }
            _ => false,
        }
    }
}
