//! Processes one packet as the program does, and the operator's requests.

use limiter_common::{
    arithmetic::bucket::{self, Decision, FORGOTTEN},
    table::{
        self, Added, Home, New, SharedTable, WAYS,
        entry::{ADDRESS, ONE_PACKET, OVER, PASSED, Shared, Stored, TAT, epoch_in, with_epoch},
        key::SourceKey,
    },
};

use crate::{
    table::{BusEntry, Table},
    world::{QUOTA, World},
};

/// The result of a packet, or of a request of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Charged to an existing bucket.
    Charged,
    /// Charged to the bucket of another source.
    ChargedToAnother,
    /// Charged to a new bucket.
    New,
    /// Charged to a new bucket, in the entry of another source.
    Replaced,
    /// Charged to a new bucket, in the entries of two other sources.
    ReplacedTwo,
    /// The bucket has too few tokens.
    Refused,
    /// There is no room for a new source.
    NoRoom,
    /// All compare-and-swap attempts were lost.
    Contended,
    /// The operator has reset a source, or there was nothing to reset.
    Forgotten,
    Nothing,
    /// The charge was refunded.
    Refunded,
    /// This number of sources was cleared.
    Cleared(u64),
}

impl Outcome {
    pub fn is_admitted(self) -> bool {
        matches!(
            self,
            Self::Charged | Self::ChargedToAnother | Self::New | Self::Replaced | Self::ReplacedTwo
        )
    }

    /// Number of sources that the outcome adds, as the program counts them.
    pub fn came(self) -> i64 {
        match self {
            Self::New => 1,
            Self::ReplacedTwo | Self::Forgotten => -1,
            Self::Cleared(sources) => -sources.cast_signed(),
            _ => 0,
        }
    }
}

/// A packet of a source at `now` nanoseconds.
#[derive(Clone, Copy)]
pub struct Packet {
    pub tag: SourceKey,
    pub now: u64,
}

/// Attempts of a packet to charge a bucket.
const ATTEMPTS: u32 = 2;

impl Packet {
    /// Charges the packet as `charge` in the program does.
    pub fn pass(self, table: &Table<'_>) -> Outcome {
        for _ in 0..ATTEMPTS {
            match self.charge_known(table) {
                Tried::Done(outcome, entry) => {
                    entry.count(if outcome.is_admitted() { PASSED } else { OVER });
                    return outcome;
                }
                Tried::New => match self.charge_new_outcome(table) {
                    Outcome::Contended => {}
                    outcome => return outcome,
                },
                Tried::Lost => {}
                Tried::Stale => self.refresh(table),
            }
        }
        Outcome::Contended
    }

    /// Only adds the source.
    fn charge_new(self, table: &Table<'_>) -> Added {
        let Self { tag, now } = self;
        let Decision::Admit { tat } = QUOTA.decide(QUOTA.full(now), now, QUOTA.cost) else {
            unreachable!("a full bucket admits a packet");
        };
        let epoch = table.epoch;
        table::add(
            table,
            &New {
                key: &tag,
                tat,
                epoch,
                now,
                replaces: false,
            },
        )
    }

    /// Adds the source, and returns the packet's outcome.
    pub fn charge_new_outcome(self, table: &Table<'_>) -> Outcome {
        let before = table.removed.get();
        match self.charge_new(table) {
            Added::Done => match table.removed.get() - before {
                0 => Outcome::New,
                1 => Outcome::Replaced,
                _ => Outcome::ReplacedTwo,
            },
            Added::NoRoom => Outcome::NoRoom,
            Added::Raced => Outcome::Contended,
        }
    }

    fn charge_known<'a>(self, table: &Table<'a>) -> Tried<'a> {
        let Self { tag, now } = self;
        let Some(mut entry) = likely(table, &tag) else {
            return Tried::New;
        };
        let mut stored = entry.read(&tag, table.epoch);
        if stored == Stored::Elsewhere {
            let Some(found) = entry_of(table, &tag, &table.home(&tag)) else {
                return Tried::New;
            };
            (entry, stored) = (found, found.read(&tag, table.epoch));
        }
        let word = match stored {
            Stored::Present(word) => word,
            Stored::Stale => return Tried::Stale,
            Stored::Busy | Stored::Elsewhere => return Tried::Lost,
        };
        match QUOTA.decide(word, now, QUOTA.cost) {
            Decision::Refuse { .. } if !entry.has_still(word) => Tried::Lost,
            Decision::Refuse { .. } => Tried::Done(Outcome::Refused, entry),
            Decision::Admit { tat } if entry.charge_read(&tag, word, tat) => {
                let is_own = table.changed.get() == World::number_of(&tag);
                let outcome = if is_own {
                    Outcome::Charged
                } else {
                    Outcome::ChargedToAnother
                };
                Tried::Done(outcome, entry)
            }
            Decision::Admit { .. } => Tried::Lost,
        }
    }

    /// Refunds the charge.
    pub fn refund(self, table: &Table<'_>) -> Outcome {
        let Self { tag, now } = self;
        for _ in 0..ATTEMPTS {
            let Some(entry) = entry_of(table, &tag, &table.home(&tag)) else {
                return Outcome::Nothing;
            };
            let Stored::Present(word) = entry.read(&tag, table.epoch) else {
                return Outcome::Nothing;
            };
            let refunded = QUOTA.refunded(word, QUOTA.cost, now, now);
            if entry.charge_read(&tag, word, refunded) {
                entry.add(PASSED, ONE_PACKET.wrapping_neg());
                return Outcome::Refunded;
            }
        }
        Outcome::Nothing
    }

    fn refresh(self, table: &Table<'_>) {
        let Some(entry) = entry_of(table, &self.tag, &table.home(&self.tag)) else {
            return;
        };
        let (over, word) = (entry.load(OVER), entry.load(TAT));
        let epoch = epoch_in(over, table.epoch);
        if bucket::is_time(word)
            && epoch != table.epoch
            && let Some(converted) = table.on_present(epoch, word)
        {
            entry.convert(&self.tag, over, word, converted, table.epoch);
        }
    }
}

enum Tried<'a> {
    Done(Outcome, BusEntry<'a>),
    New,
    Lost,
    Stale,
}

/// The entry that a packet reads first, as in the program: the one with the key's address in its home set.
fn likely<'a>(table: &Table<'a>, tag: &SourceKey) -> Option<BusEntry<'a>> {
    let home = table.home(tag);
    if !tag.is_wide() {
        let first = table.set(home.set)?;
        // The way is selected without branches, and its address compared.
        let entry = first.at(u32::from(first.load(ADDRESS) != tag.first));
        if entry.load(ADDRESS) == tag.first {
            return Some(entry);
        }
        if table.overflow(home.set).count() == 0 {
            return None;
        }
    }
    entry_of(table, tag, &home)
}

/// The entry that [`table::find`] finds.
fn entry_of<'a>(table: &Table<'a>, tag: &SourceKey, home: &Home) -> Option<BusEntry<'a>> {
    let index = table::find(table, tag, home)?;
    Some(table.set(index / WAYS)?.at(index % WAYS))
}

/// Resets the source.
pub fn forget(table: &Table<'_>, tag: &SourceKey) -> Outcome {
    for _ in 0..ATTEMPTS {
        let home = table.home(tag);
        let Some(entry) = entry_of(table, tag, &home) else {
            return Outcome::Nothing;
        };
        let word = entry.load(TAT);
        if bucket::is_time(word) && entry.is_of(tag) && entry.swap(TAT, word, FORGOTTEN) {
            return Outcome::Forgotten;
        }
    }
    Outcome::Contended
}

/// Clears the entries of a set that may be taken.
pub fn clear(table: &Table<'_>, set: u32, now: u64) -> Outcome {
    let before = table.removed.get();
    table::clear(table, set, now);
    Outcome::Cleared(table.removed.get() - before)
}

/// Marks the entries of a set that are of epoch `old` as of epoch `new`.
pub fn mark(table: &Table<'_>, set: u32, old: u32, new: u32) {
    let Some(set) = table.set(set) else { return };
    for way in 0..WAYS {
        let entry = set.at(way);
        for _ in 0..ATTEMPTS {
            let over = entry.load(OVER);
            if epoch_in(over, old) != old || entry.swap(OVER, over, with_epoch(over, new)) {
                break;
            }
        }
    }
}
