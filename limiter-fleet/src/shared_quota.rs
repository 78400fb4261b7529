//! The quota of one limit of a fleet, and the possible difference between hosts.

use std::{ops::RangeInclusive, time::Duration};

use limiter_common::arithmetic::bucket::{DEBT_MAX, TICK_SHIFT};

/// The staleness for which debt is kept, within bounds. After a longer absence of the store, not all packets
/// that other hosts admitted are charged, so that a source over its rate is locked out for a limited time only.
pub const STALENESS: RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(10);

/// At most 1/20 of a limit's rate may stay unknown to other hosts, whatever the number of hosts.
const UNSEEN: u64 = 20;

/// One limit of a fleet, in ticks; see [`limiter_common::arithmetic::bucket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Depth of the bucket.
    pub tau: u64,
    /// Cost of a packet; at least 1.
    pub cost: u64,
    /// Changes with the quota. A TAT of another epoch has no meaning.
    pub epoch: u32,
}

/// The number of hosts, and the age of their knowledge of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Members, this one among them; 0 counts as 1.
    pub hosts: u32,
    /// Age of this host's knowledge of the others.
    pub staleness: Duration,
}

/// Converts a time to ticks; the maximum if the time is too long.
pub fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(u64::MAX, |time| time.saturating_mul(1 << TICK_SHIFT))
}

impl Fleet {
    /// The divisor of the part of a limit that this host may keep to itself. All hosts together keep at most 1 in
    /// [`UNSEEN`].
    pub fn share(self) -> u64 {
        UNSEEN * u64::from(self.hosts.max(1))
    }

    /// The maximum debt of a bucket, in ticks: the packets that all other hosts can admit before they hear of one
    /// another.
    pub fn debt(self, quota: &Quota) -> u64 {
        let staleness = self.staleness.clamp(*STALENESS.start(), *STALENESS.end());
        let each = quota.tau.saturating_add(ticks(staleness));
        let others = u64::from(self.hosts.saturating_sub(1));
        // Half of the maximum that the program accepts as a TAT. The other half is for the source's packets in the
        // meantime.
        each.saturating_mul(others).min(DEBT_MAX / 2)
    }
}
