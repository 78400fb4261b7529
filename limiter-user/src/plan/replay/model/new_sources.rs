//! The new-source limit, for a single CPU.

use std::cell::Cell;

use limiter_common::{
    abi::rules::NewSourceQuota,
    arithmetic::bucket,
    policy::new_sources::{ATTEMPTS, LOST, lease_once},
    table::key::SLOTS,
};

/// The buckets of the new-source limit, and the leases taken from them.
#[derive(Debug)]
pub struct NewSources {
    limit: NewSourceQuota,
    common: Cell<u64>,
    /// The limits' own buckets, by slot.
    own: [Cell<u64>; SLOTS as usize],
    leases: [Cell<u64>; SLOTS as usize],
}

impl NewSources {
    /// Creates buckets that are full at `begin` (nanoseconds).
    pub fn new(limit: NewSourceQuota, begin: u64) -> Self {
        let full = bucket::time(bucket::ticks(begin));
        Self {
            limit,
            common: Cell::new(full),
            own: std::array::from_fn(|_| Cell::new(full)),
            leases: std::array::from_fn(|_| Cell::new(0)),
        }
    }

    /// Returns true if the limit in `slot` may make one more bucket at `now` (nanoseconds). Then its lease has a token.
    pub fn reserve(&self, slot: u32, now: u64) -> bool {
        let slot = slot as usize % self.leases.len();
        if self.limit.cost != 0 && self.leases[slot].get() == 0 {
            self.leases[slot].set(self.take_lease(slot, now));
        }
        self.limit.cost == 0 || self.leases[slot].get() > 0
    }

    /// Takes the reserved token.
    pub fn take(&self, slot: u32) {
        let lease = &self.leases[slot as usize % self.leases.len()];
        lease.set(lease.get().saturating_sub(1));
    }

    /// Takes a lease: as many tokens as a CPU takes at once. If there are fewer, takes one or none.
    fn take_lease(&self, slot: usize, now: u64) -> u64 {
        let (common, own) = (&self.common, &self.own[slot]);
        let mut tries = (0..ATTEMPTS).map(|_| lease_once(&self.limit, common, own, now, || now));
        tries.find(|tokens| *tokens != LOST).unwrap_or(0)
    }
}
