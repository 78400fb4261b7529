//! One source of one limit, as one member keeps account of it.

use std::time::Duration;

use super::{
    quota::{Fleet, Quota, ticks},
    refill::{Look, RefillTracker},
};

/// Looks for which a source stays in after it has fallen silent with a full bucket.
const SILENT: u32 = 20;
/// A source that charges nothing is asked for in every so many rounds.
const SELDOM: u32 = 10;
/// Packets that could not be told for so long are told only as far as the bucket still has them: whoever hears of
/// them late would charge them as if they came now. Longer than any answer takes that comes at all.
const LATE: Duration = Duration::from_secs(2);
/// Packets that a figure may lag behind its bucket: they are counted a moment after they were charged.
pub(super) const LAG: u64 = 3;
/// What the store says of a source that it has no record of.
pub const UNBORN: u64 = 0;

/// What the store says of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Tells this record from another one of the same source, before or after; [`UNBORN`]: there is none.
    pub born: u64,
    /// Packets that all members have charged since then.
    pub total: u64,
    /// Ticks that the fleet's own bucket is spent by.
    pub spent: u64,
}

/// A source.
#[derive(Clone, Debug)]
pub struct Ledger {
    refill: RefillTracker,
    /// Packets charged here that no round has taken along.
    unpublished: u64,
    /// Packets that the round under way has taken along.
    under_way: u64,
    /// Packets charged between the last two looks, and the two before.
    latest: [u64; 2],
    /// When the last round came back that took some along.
    told: u64,
    /// Ticks by which the source is over the share that a host may keep to itself.
    over_share: u64,
    standing: Standing,
}

#[derive(Clone, Copy, Debug)]
enum Standing {
    /// Below its share: nobody else needs to know.
    Apart,
    /// Told to the store.
    Shared(Shared),
}

#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    /// The record that the figures below belong to.
    born: u64,
    /// Packets of this member in it.
    own: i64,
    /// Packets of the others in it, as far as they are in this host's bucket. Below 0 after the store has lost
    /// some of this member's.
    others: i64,
    /// Looks since this host has charged, or others have.
    silent: u32,
    /// Rounds since it was asked for.
    asked: u32,
    /// Ticks since the store has answered.
    unasked: u64,
    /// Whether it ever has: then this bucket has all of what the store knew at that time.
    is_heard: bool,
    /// Whether this host has charged since.
    has_charged: bool,
}

impl Ledger {
    /// Of a source whose bucket was full when it was looked at last, and has been charged `packets` since. What ran
    /// over meanwhile is not known, and nothing is made of it.
    #[must_use]
    pub fn new(look: Look, packets: u64, terms: &Quota, fleet: Fleet) -> Self {
        let mut ledger = Self::with(look, Standing::Apart);
        ledger.unpublished = packets;
        ledger.latest[0] = packets;
        ledger.weigh(0, packets.saturating_mul(terms.cost), terms, fleet);
        ledger
    }

    fn with(look: Look, standing: Standing) -> Self {
        Self {
            refill: RefillTracker::new(look),
            unpublished: 0,
            under_way: 0,
            latest: [0; 2],
            told: look.now,
            over_share: 0,
            standing,
        }
    }

    /// The next look, after this host has charged `packets`, as its figures say. What its bucket has not been charged
    /// with was not: figures also jump where a limit is no longer in shadow, or begins to be.
    pub fn look(&mut self, look: Look, packets: u64, terms: &Quota, fleet: Fleet) {
        let possible = self.refill.possible(&look);
        let packets = possible.map_or(packets, |most| packets.min(most / terms.cost + LAG));
        let elapsed = look.now.wrapping_sub(self.refill.last().now);
        let charged = packets.saturating_mul(terms.cost);
        self.refill.advance(look, charged);
        self.unpublished = self.unpublished.saturating_add(packets);
        self.latest = [packets, self.latest[0]];
        if look.now.wrapping_sub(self.told) > ticks(LATE) {
            let [last, before] = self.latest;
            let left = look.spent() / terms.cost;
            self.unpublished = self.unpublished.min(left.saturating_add(last + before));
        }
        match &mut self.standing {
            Standing::Apart => {
                self.refill.settle(terms.cost, fleet, 0);
                self.weigh(elapsed, charged, terms, fleet);
            }
            Standing::Shared(shared) => {
                let elapsed = if elapsed.cast_signed() < 0 {
                    0
                } else {
                    elapsed
                };
                shared.unasked = shared.unasked.saturating_add(elapsed);
                self.refill.settle(terms.cost, fleet, shared.unasked);
                let is_silent = packets == 0 && look.spent() == 0;
                shared.silent = if is_silent { shared.silent + 1 } else { 0 };
                shared.has_charged |= packets > 0;
            }
        }
    }

    /// Whether the source is over the share that this host may keep to itself.
    fn weigh(&mut self, elapsed: u64, charged: u64, terms: &Quota, fleet: Fleet) {
        let share = fleet.share();
        self.over_share = self.over_share.saturating_sub(elapsed / share);
        self.over_share = self.over_share.saturating_add(charged);
        if self.over_share == 0 {
            self.unpublished = 0;
        }
        // One packet alone is nothing that others have to know of.
        if self.over_share > terms.cost.max(terms.tau / share) {
            self.standing = Standing::Shared(Shared {
                has_charged: true,
                ..Shared::default()
            });
        }
    }

    /// An account of a bucket that was in use before anybody kept account of it: who has charged what is not known,
    /// and the store is asked for its level.
    #[must_use]
    pub fn of_old(look: Look) -> Self {
        let shared = Shared {
            has_charged: true,
            ..Shared::default()
        };
        Self::with(look, Standing::Shared(shared))
    }

    /// Whether nothing is lost by forgetting it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.standing {
            Standing::Apart => self.over_share == 0,
            Standing::Shared(shared) => {
                shared.silent >= SILENT && self.unpublished == 0 && self.under_way == 0
            }
        }
    }

    /// What the next round takes along of it: packets charged since the last one. Nothing where it is not due.
    pub fn publish(&mut self) -> Option<u64> {
        let Standing::Shared(shared) = &mut self.standing else {
            return None;
        };
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

    /// The store has answered to the round, and the bucket cannot be looked at: what the others have charged is heard
    /// of the next time. What this host has told counts as its own all the same.
    pub fn answer_unseen(&mut self, record: &Record) {
        let own = count(std::mem::take(&mut self.under_way));
        if let Standing::Shared(shared) = &mut self.standing
            && shared.born == record.born
        {
            shared.own += own;
        }
    }

    /// What the store has answered to the round. Returns the ticks to be added to the bucket.
    pub fn answer(&mut self, record: &Record, look: &Look, terms: &Quota) -> u64 {
        let own = count(std::mem::take(&mut self.under_way));
        self.told = look.now;
        let Standing::Shared(shared) = &mut self.standing else {
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
            // Nothing is known of what this bucket has of it already: its level tells.
            shared.born = record.born;
            shared.own = own;
            shared.others = total - own;
            let others = u64::try_from(shared.others).unwrap_or(0);
            if others == 0 {
                return 0;
            }
            // What the store has not heard of comes on top of it.
            let unheard = self.unpublished.saturating_mul(terms.cost);
            let own = look.spent().saturating_sub(unheard);
            let mut level = record.spent.saturating_sub(own);
            if was_heard {
                // The record is younger than the last answer, and its level has what was told late as if it had
                // come at once: no more than what the others have told since, less what ran over here meanwhile.
                let told = others.saturating_mul(terms.cost);
                level = level.min(self.refill.less_idle(told));
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
        self.refill.less_idle(new.saturating_mul(terms.cost))
    }

    /// So many ticks were added to the bucket.
    pub fn added(&mut self, ticks: u64) {
        self.refill.add(ticks);
    }
}

/// Counts of the store are below 2^53, and others' sums are differences of them.
fn count(packets: u64) -> i64 {
    i64::try_from(packets)
        .unwrap_or(i64::MAX >> 8)
        .min(i64::MAX >> 8)
}
