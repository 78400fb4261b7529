//! One packet and one limit: what the bucket says, with the program's functions.

use limiter_common::{
    bucket::{Decision, is_time},
    entry::{Protocol, Shared, TAT},
    key::Tag,
    rules::Limit,
    table::Added,
    verdict::Reason,
};

use super::{
    newcomers::Newcomers,
    table::{Entry, Memory},
};

/// A packet that wants to pass one limit.
#[derive(Clone, Copy)]
pub struct Demand<'a> {
    pub memory: &'a Memory,
    pub limit: &'a Limit,
    pub tag: Tag,
    /// When it came, in nanoseconds.
    pub now: u64,
    /// Bytes of its frame.
    pub length: u64,
}

/// What a limit said.
pub enum Said<'a> {
    /// What stands in the bucket; charged, where it was to be.
    Admitted(Entry<'a>),
    /// There is not enough in it.
    Refused(Entry<'a>),
    /// There is no bucket yet: it is full, and to be made.
    New,
}

impl<'a> Demand<'a> {
    fn cost(&self) -> u64 {
        self.limit.terms.cost_of(self.length)
    }

    pub fn find(&self) -> Option<Entry<'a>> {
        let entry = self.memory.find(&self.tag);
        entry.filter(|entry| is_time(entry.load(TAT)))
    }

    /// Asks the bucket, and charges it if that is wanted. A word that is further ahead than any packet could
    /// have brought it is put right before.
    pub fn ask(&self, charge: bool) -> Said<'a> {
        let Some(entry) = self.find() else {
            return Said::New;
        };
        let terms = &self.limit.terms;
        let mut word = entry.load(TAT);
        let mut decision = terms.decide(word, self.now, self.cost());
        if matches!(decision, Decision::Refuse { .. })
            && let Some(corrected) = terms.corrected(word, self.now)
        {
            entry.charge(&self.tag, word, corrected);
            word = corrected;
            decision = terms.decide(word, self.now, self.cost());
        }
        match decision {
            Decision::Refuse { .. } => Said::Refused(entry),
            Decision::Admit { tat } => {
                if charge {
                    entry.charge(&self.tag, word, tat);
                }
                Said::Admitted(entry)
            }
        }
    }

    /// Makes a bucket, which is full, charges it, and counts the packet for its source; takes a token for a new source if
    /// `pay`, or if there is no room.
    pub fn add(&self, newcomers: &mut Newcomers, pay: bool) -> Reason {
        let terms = &self.limit.terms;
        let full = terms.full(self.now);
        let Decision::Admit { tat } = terms.decide(full, self.now, self.cost()) else {
            return Reason::Limit;
        };
        let slot = self.limit.slot;
        if !newcomers.reserve(slot, self.now) {
            return Reason::Newcomer;
        }
        let has_room = self.memory.make_room(&self.tag, self.now);
        if pay || !has_room {
            newcomers.take(slot);
        }
        if !has_room {
            return Reason::Newcomer;
        }
        match self.memory.add(&self.tag, tat, self.now) {
            Added::Done | Added::Replaced => Reason::Admitted,
            Added::NoRoom => Reason::Newcomer,
            // There is nobody to race with.
            Added::Raced => Reason::Contended,
        }
    }

    /// Takes a charge back, which was made at the same moment.
    pub fn refund(&self) {
        if let Some(entry) = self.find() {
            let word = entry.load(TAT);
            let terms = &self.limit.terms;
            let refunded = terms.refunded(word, self.cost(), self.now, self.now);
            entry.charge(&self.tag, word, refunded);
            entry.uncount();
        }
    }
}
