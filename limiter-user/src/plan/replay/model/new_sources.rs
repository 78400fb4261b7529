//! The new-source limit and second chances, for a single CPU.

use std::cell::Cell;

use limiter_common::{
    abi::{
        Constants,
        rules::{NewSourceQuota, ROWS},
    },
    arithmetic::bucket,
    policy::{
        new_sources::{ATTEMPTS, LOST, lease_once},
        second_chance::{Place, WORDS, lines},
    },
    table::key::{SLOTS, SourceKey},
};

/// The buckets of the new-source limit and of second chances, the leases taken from them, and the refused sources.
#[derive(Debug)]
pub struct NewSources {
    limits: [NewSourceQuota; 2],
    common: [Cell<u64>; 2],
    /// The limits' own buckets, by row.
    own: [Cell<u64>; ROWS as usize],
    leases: [Cell<u64>; ROWS as usize],
    refused: Vec<[Cell<u32>; WORDS as usize]>,
}

impl NewSources {
    /// Creates buckets that are full at `begin` (nanoseconds).
    pub fn new(config: &Constants, begin: u64) -> Self {
        let full = bucket::time(bucket::ticks(begin));
        let lines = 0..lines(config.sets);
        Self {
            limits: [config.new_sources, config.second_chances],
            common: [Cell::new(full), Cell::new(full)],
            own: std::array::from_fn(|_| Cell::new(full)),
            leases: std::array::from_fn(|_| Cell::new(0)),
            refused: lines.map(|_| Default::default()).collect(),
        }
    }

    /// Returns true if the row may make one more bucket at `now` (nanoseconds). Then its lease has a token.
    pub fn reserve(&self, row: u32, now: u64) -> bool {
        let row = row as usize % self.leases.len();
        if self.limits[0].cost == 0 {
            return true;
        }
        if self.leases[row].get() == 0 {
            self.leases[row].set(self.take_lease(row, now));
        }
        self.leases[row].get() > 0
    }

    /// Takes the reserved token.
    pub fn take(&self, row: u32) {
        let lease = &self.leases[row as usize % self.leases.len()];
        lease.set(lease.get().saturating_sub(1));
    }

    /// Takes a lease: as many tokens as a CPU takes at once. If there are fewer, takes one or none.
    fn take_lease(&self, row: usize, now: u64) -> u64 {
        let budget = row / SLOTS as usize % self.limits.len();
        let (limit, common, own) = (&self.limits[budget], &self.common[budget], &self.own[row]);
        let mut tries = (0..ATTEMPTS).map(|_| lease_once(limit, common, own, now, || now));
        tries.find(|tokens| *tokens != LOST).unwrap_or(0)
    }

    /// Returns true if the source was refused before, long enough ago for a second chance.
    pub fn was_refused(&self, config: &Constants, key: &SourceKey, now: u64) -> bool {
        let place = Place::of(&config.seed, key, config.sets);
        let line = self.refused.get(place.line as usize);
        config.second_chances.cost != 0 && line.is_some_and(|line| place.was_refused(line, now))
    }
}
