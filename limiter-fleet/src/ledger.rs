//! The ledger that one member keeps for one source of one limit.

use std::time::Duration;

use super::{
    refill::{Reading, RefillTracker},
    shared_quota::{Fleet, Quota, ticks},
};

/// Readings for which a silent source with a full bucket is kept.
const SILENT: u32 = 20;
/// The store is asked about a source without charges in every tenth round.
const SELDOM: u32 = 10;
/// Packets that could not be published for longer than this are published only as far as the bucket still has them.
/// Other hosts would charge late packets as if they came now. Longer than any answer takes.
const LATE: Duration = Duration::from_secs(2);
/// Packets by which a counter may lag behind its bucket: they are counted a moment after they were charged.
pub(super) const LAG: u64 = 3;
/// The `born` of a source that the store has no record of.
pub const UNBORN: u64 = 0;

/// The store's record of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Identifies the record among all records of the source; [`UNBORN`]: there is none.
    pub born: u64,
    /// Packets that all members have charged since the record was made.
    pub total: u64,
    /// Ticks spent in the fleet's own bucket.
    pub spent: u64,
}

/// The ledger of a source.
#[derive(Clone, Debug)]
pub struct Ledger {
    refill: RefillTracker,
    /// Packets charged here that are not part of a round yet.
    unpublished: u64,
    /// Packets in the round under way.
    under_way: u64,
    /// Packets charged between the last two readings, and between the two before.
    latest: [u64; 2],
    /// Time of the last answer, in ticks.
    heard: u64,
    /// Ticks by which the source is over the share that this host may keep to itself.
    over_share: u64,
    /// The exchange with the store; none below the share, where other hosts need not know of the source.
    shared: Option<Shared>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    /// The record that the counts below belong to.
    born: u64,
    /// Packets of this member in the record.
    own: i64,
    /// Packets of the other members in the record, as far as this host's bucket is charged with them. Below 0 after
    /// the store has lost some of this member's packets.
    others: i64,
    /// Readings since this host or another one charged packets.
    silent: u32,
    /// Rounds since the store was asked about the source.
    asked: u32,
    /// Ticks since the store's last answer.
    unasked: u64,
    /// True if the store has ever answered. Then the bucket has everything that the store knew at that time.
    is_heard: bool,
    /// True if this host has charged packets since the last round.
    has_charged: bool,
}

impl Shared {
    fn new() -> Self {
        Self {
            has_charged: true,
            ..Self::default()
        }
    }
}

impl Ledger {
    /// Creates the ledger of a source. Its bucket was full at the last reading, and was charged `packets` since. The
    /// refill that overflowed in between is not known, and counts as 0.
    pub fn new(reading: Reading, packets: u64, quota: &Quota, fleet: Fleet) -> Self {
        let mut ledger = Self::with(reading, None);
        ledger.unpublished = packets;
        ledger.latest[0] = packets;
        ledger.count_share(0, packets.saturating_mul(quota.cost), quota, fleet);
        ledger
    }

    fn with(reading: Reading, shared: Option<Shared>) -> Self {
        Self {
            refill: RefillTracker::new(reading),
            unpublished: 0,
            under_way: 0,
            latest: [0; 2],
            heard: reading.now,
            over_share: 0,
            shared,
        }
    }

    /// Adds the next reading, after this host charged `packets` by its counters. Limits `packets` to the bucket's
    /// possible charges: the counters also jump when the limit's shadow mode is switched.
    pub fn read(&mut self, reading: Reading, packets: u64, quota: &Quota, fleet: Fleet) {
        let possible = self.refill.possible(&reading);
        let packets = possible.map_or(packets, |most| packets.min(most / quota.cost + LAG));
        let elapsed = reading.now.wrapping_sub(self.refill.last.now);
        let charged = packets.saturating_mul(quota.cost);
        self.refill.advance(reading, charged);
        self.unpublished = self.unpublished.saturating_add(packets);
        self.latest = [packets, self.latest[0]];
        if reading.now.wrapping_sub(self.heard) > ticks(LATE) {
            let [last, before] = self.latest;
            let left = reading.spent() / quota.cost;
            self.unpublished = self.unpublished.min(left.saturating_add(last + before));
        }
        match &mut self.shared {
            None => {
                self.refill.settle(quota.cost, fleet, 0);
                self.count_share(elapsed, charged, quota, fleet);
            }
            Some(shared) => {
                // A clock that went back counts as no time passed.
                let elapsed = elapsed.cast_signed().max(0).cast_unsigned();
                shared.unasked = shared.unasked.saturating_add(elapsed);
                self.refill.settle(quota.cost, fleet, shared.unasked);
                let is_silent = packets == 0 && reading.spent() == 0;
                shared.silent = if is_silent { shared.silent + 1 } else { 0 };
                shared.has_charged |= packets > 0;
            }
        }
    }

    /// Updates the ticks over the share that this host may keep to itself. Shares the source if they are too many.
    fn count_share(&mut self, elapsed: u64, charged: u64, quota: &Quota, fleet: Fleet) {
        let share = fleet.share();
        self.over_share = self.over_share.saturating_sub(elapsed / share);
        self.over_share = self.over_share.saturating_add(charged);
        if self.over_share == 0 {
            self.unpublished = 0;
        }
        // Other hosts need not know of a single packet.
        if self.over_share > quota.cost.max(quota.tau / share) {
            self.shared = Some(Shared::new());
        }
    }

    /// Creates the ledger of a bucket that was in use before. Its earlier charges are not known, and the store is
    /// asked for its level.
    pub fn of_old(reading: Reading) -> Self {
        Self::with(reading, Some(Shared::new()))
    }

    /// Returns true if the ledger can be dropped without loss.
    pub fn is_over(&self) -> bool {
        match &self.shared {
            None => self.over_share == 0,
            Some(shared) => shared.silent >= SILENT && self.unpublished == 0 && self.under_way == 0,
        }
    }

    /// The packets for the next round: those charged since the last one. None if the source is not due.
    pub fn publish(&mut self) -> Option<u64> {
        let shared = self.shared.as_mut()?;
        shared.asked += 1;
        let is_due = shared.has_charged || self.unpublished > 0 || shared.asked >= SELDOM;
        if !is_due {
            return None;
        }
        shared.asked = 0;
        shared.has_charged = false;
        self.under_way = std::mem::take(&mut self.unpublished);
        Some(self.under_way)
    }

    /// Takes the store's answer while the bucket cannot be read. The packets of other members come with the next
    /// answer. The packets in the round count as this host's own.
    pub fn answer_unseen(&mut self, record: &Record) {
        let own = count(std::mem::take(&mut self.under_way));
        if let Some(shared) = &mut self.shared
            && shared.born == record.born
        {
            shared.own += own;
        }
    }

    /// Takes the store's answer to a round. Returns the ticks to charge the bucket with.
    pub fn answer(&mut self, record: &Record, reading: &Reading, quota: &Quota) -> u64 {
        let own = count(std::mem::take(&mut self.under_way));
        self.heard = reading.now;
        let Some(shared) = &mut self.shared else {
            return 0;
        };
        shared.unasked = 0;
        let was_heard = std::mem::replace(&mut shared.is_heard, true);
        if record.born == UNBORN {
            shared.born = UNBORN;
            return 0;
        }
        let total = count(record.total);
        if shared.born != record.born {
            // The record is new: the share of it in this bucket is not known. The levels decide.
            shared.born = record.born;
            shared.own = own;
            shared.others = total - own;
            let others = u64::try_from(shared.others).unwrap_or(0);
            if others == 0 {
                return 0;
            }
            // Packets that the store does not know of are spent on top of its level.
            let unheard = self.unpublished.saturating_mul(quota.cost);
            let own = reading.spent().saturating_sub(unheard);
            let mut level = record.spent.saturating_sub(own);
            if was_heard {
                // The record is younger than the last answer. Its level has late packets as if they were new. Limited
                // to the packets that other members published since, less the refill that overflowed here meanwhile.
                let charged = others.saturating_mul(quota.cost);
                level = level.min(self.refill.less_idle(charged));
            }
            return level;
        }
        shared.own += own;
        let others = total - shared.own;
        let new = others - std::mem::replace(&mut shared.others, others);
        let new = u64::try_from(new).unwrap_or(0);
        if new == 0 {
            return 0;
        }
        shared.silent = 0;
        self.refill.less_idle(new.saturating_mul(quota.cost))
    }

    /// Notes that `ticks` were charged to the bucket for other hosts.
    pub fn added(&mut self, ticks: u64) {
        self.refill.add(ticks);
    }
}

/// Converts a count of packets. The store's counts are below 2^53, and the other members' sums are differences of
/// them.
fn count(packets: u64) -> i64 {
    i64::try_from(packets)
        .unwrap_or(i64::MAX >> 8)
        .min(i64::MAX >> 8)
}
