//! What is fixed for one limit of a fleet at one moment: its bucket, and how far the hosts may drift apart.

use std::time::Duration;

use limiter_common::arithmetic::bucket::{DEBT_MAX, TICK_SHIFT};

/// The smallest and the largest staleness that debt is kept for. What others were admitted while the store was
/// gone for longer than the latter is not asked back for all of it: a source that was over its rate then is
/// not locked out for as long as the store was away.
pub const STALENESS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// At most one part in so many of a limit's rate may go unseen, whatever the number of hosts.
const UNSEEN: u64 = 20;

/// One limit of a fleet, in ticks; see [`limiter_common::arithmetic::bucket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Depth of the bucket.
    pub tau: u64,
    /// Cost of a packet; at least 1.
    pub cost: u64,
    /// Changes with the terms: words of another one tell nothing.
    pub epoch: u32,
}

/// How many there are, and how late they hear of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// Members, this one among them; at least 1.
    pub hosts: u32,
    /// How old what this one knows of the others is.
    pub staleness: Duration,
}

/// A time in ticks; the longest there is, where it does not fit.
#[must_use]
pub fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(u64::MAX, |time| time.saturating_mul(1 << TICK_SHIFT))
}

impl Fleet {
    /// The part of a limit that this host may keep to itself, as one part in so many: all hosts together keep at
    /// most one in [`UNSEEN`].
    #[must_use]
    pub fn share(self) -> u64 {
        UNSEEN * u64::from(self.hosts.max(1))
    }

    /// How far a bucket may be emptier than empty, in ticks: as much as all others can have admitted before they
    /// heard of one another.
    #[must_use]
    pub fn debt(self, terms: &Quota) -> u64 {
        let staleness = self.staleness.clamp(STALENESS.0, STALENESS.1);
        let each = terms.tau.saturating_add(ticks(staleness));
        let others = u64::from(self.hosts.saturating_sub(1));
        // Half of what the program takes for a sane word: the other half is for a source that goes on meanwhile.
        each.saturating_mul(others).min(DEBT_MAX / 2)
    }
}
