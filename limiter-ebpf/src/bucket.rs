//! Takes the packet's cost from one bucket, or refuses it: lookup, decision, one compare-and-swap. The
//! arithmetic is in `limiter_common`; here is only what a race needs.

use limiter_common::{
    bucket::{self, CONVERTING, Decision},
    key::SourceKey,
    limit::Terms,
    verdict::Reason,
};

use crate::clock::{self, Between};
use crate::entry::Entry;
use crate::table::{self, Added};
use crate::{config, newcomers, terms};

/// Losing this often means that others made progress as often; then the packet is refused.
const ATTEMPTS: u32 = 8;

/// Instead of the time: the clock has not been read for this packet.
pub const NOT_READ: u64 = 0;

/// What a bucket said, and the entry that it stands in, where there is one.
pub struct Charged {
    /// [`Reason::Admitted`], [`Reason::Limit`], [`Reason::Newcomer`] or [`Reason::Contended`].
    pub reason: Reason,
    /// For the source's own figures.
    pub entry: Option<Entry>,
}

impl Charged {
    #[inline(always)]
    fn with(reason: Reason, entry: Option<Entry>) -> Self {
        Self { reason, entry }
    }
}

/// What a bucket may have said, by its number.
#[inline(always)]
pub fn reason(number: u32) -> Reason {
    const ADMITTED: u32 = Reason::Admitted as u32;
    const LIMIT: u32 = Reason::Limit as u32;
    const NEWCOMER: u32 = Reason::Newcomer as u32;
    match number {
        ADMITTED => Reason::Admitted,
        LIMIT => Reason::Limit,
        NEWCOMER => Reason::Newcomer,
        _ => Reason::Contended,
    }
}

/// What one try to charge has come to.
pub enum Tried {
    /// The bucket has said something.
    Said(Charged),
    /// There is no bucket yet: it is full, and to be made.
    New,
    /// Another CPU was faster: try again.
    Lost,
}

/// A packet that wants to pass one limit.
pub struct Demand<'a> {
    /// Index of the limit.
    index: u32,
    epoch: u32,
    terms: Terms,
    key: &'a SourceKey,
    now: &'a mut u64,
    cost: u64,
}

impl<'a> Demand<'a> {
    /// A packet of `length` bytes, for the bucket of `key`. `now` is when it came, in nanoseconds, or
    /// [`NOT_READ`] until somebody must know.
    #[inline(always)]
    pub fn new(
        index: u32,
        limit: config::Limit,
        key: &'a SourceKey,
        now: &'a mut u64,
        length: u64,
    ) -> Self {
        let terms = limit.terms();
        Self {
            index,
            epoch: limit.epoch(),
            key,
            now,
            cost: terms.cost_of(length),
            terms,
        }
    }

    /// Charges the bucket, if it has enough; tells where there is no bucket.
    #[inline(always)]
    pub fn charge_if_known(&mut self) -> Tried {
        for _ in 0..ATTEMPTS {
            match self.charge_known() {
                Tried::Lost => {}
                tried => return tried,
            }
        }
        Tried::Said(self.contended())
    }

    /// The race was lost for good.
    #[inline(always)]
    pub fn contended(&self) -> Charged {
        Charged::with(Reason::Contended, table::find(self.key))
    }

    /// What the bucket would say at this moment, charging nothing; nothing where there is none yet.
    #[inline(always)]
    pub fn weigh(&mut self) -> Option<Reason> {
        let witness = table::witness();
        let entry = table::find(self.key)?;
        // Where another CPU is at work on it, charging will tell.
        let Some(word) = self.current_word(entry) else {
            return Some(Reason::Admitted);
        };
        Some(match self.decide(word) {
            Decision::Admit { .. } => Reason::Admitted,
            Decision::Refuse { .. } if self.changed_hands(entry, witness) => Reason::Admitted,
            Decision::Refuse { .. } => {
                self.correct(entry, word);
                Reason::Limit
            }
        })
    }

    /// Takes a charge back, because another limit has refused the packet after all. Where that fails,
    /// the charge stays: that errs towards refusing.
    #[inline(always)]
    pub fn refund(&mut self) {
        for _ in 0..ATTEMPTS {
            let Some(entry) = table::find(self.key) else {
                return;
            };
            let Some(word) = self.current_word(entry) else {
                return;
            };
            // Read after the word: what was charged until then is in it.
            let present = clock::now();
            let charged = *self.now;
            let refunded = self.terms.refunded(word, self.cost, charged, present);
            if entry.swap_tat(word, refunded) {
                return;
            }
        }
    }

    /// Makes a bucket, which is full, and charges it. Nothing where there is one after all.
    #[inline(always)]
    pub fn charge_new(&mut self) -> Option<Reason> {
        if newcomers::are_out() {
            return Some(Reason::Newcomer);
        }
        let now = self.now();
        let full = self.terms.full(now);
        let Decision::Admit { tat } = self.terms.decide(full, now, self.cost) else {
            return Some(Reason::Limit);
        };
        if !newcomers::admit(now) {
            return Some(Reason::Newcomer);
        }
        match table::add(self.key, tat, self.epoch, now) {
            Added::Done => Some(Reason::Admitted),
            Added::Raced => None,
            Added::NoRoom => Some(Reason::Newcomer),
        }
    }

    /// What [`Self::charge_new`] has said, with the entry that it has made.
    #[inline(always)]
    pub fn made(&self, reason: Reason) -> Charged {
        match reason {
            Reason::Admitted => Charged::with(reason, table::find(self.key)),
            _ => Charged::with(reason, None),
        }
    }

    /// Charges a bucket that is there.
    #[inline(always)]
    fn charge_known(&mut self) -> Tried {
        let witness = table::witness();
        let Some(entry) = table::find(self.key) else {
            return Tried::New;
        };
        let Some(word) = self.current_word(entry) else {
            return Tried::Lost;
        };
        match self.decide(word) {
            Decision::Refuse { .. } => {
                if self.changed_hands(entry, witness) {
                    return Tried::Lost;
                }
                self.correct(entry, word);
                Tried::Said(Charged::with(Reason::Limit, Some(entry)))
            }
            Decision::Admit { tat: charged } => {
                if !entry.swap_tat(word, charged) {
                    return Tried::Lost;
                }
                if self.changed_hands(entry, witness) {
                    // Another source was charged. If its bucket has changed since, the charge stays:
                    // that errs towards refusing.
                    entry.swap_tat(charged, word);
                    return Tried::Lost;
                }
                Tried::Said(Charged::with(Reason::Admitted, Some(entry)))
            }
        }
    }

    /// What the terms say to the packet. The clock is read only where its bounds leave that open.
    #[inline(always)]
    fn decide(&mut self, word: u64) -> Decision {
        if *self.now == NOT_READ
            && let Some(between) = clock::between()
        {
            let Between { earliest, latest } = between;
            let decided = self.terms.decide_between(word, earliest, latest, self.cost);
            if let Some(decision) = decided {
                return decision;
            }
        }
        let now = self.now();
        self.terms.decide(word, now, self.cost)
    }

    /// When the packet came.
    #[inline(always)]
    fn now(&mut self) -> u64 {
        if *self.now == NOT_READ {
            *self.now = clock::now();
        }
        *self.now
    }

    /// Whether the entry that was found after `witness` is no longer that of the key.
    #[inline(always)]
    fn changed_hands(&self, entry: Entry, witness: u64) -> bool {
        table::moved_since(witness) && table::find(self.key) != Some(entry)
    }

    /// Keeps a source from being locked out by a clock that was set back. Whoever comes first does it.
    ///
    /// The clock is read again, after the word: this CPU may have been stopped (a virtual one is, for
    /// milliseconds) between reading the clock and the bucket, which others went on charging.
    #[inline(always)]
    fn correct(&self, entry: Entry, word: u64) {
        // Where the bounds were enough there is nothing to correct.
        if *self.now == NOT_READ || self.terms.corrected(word, *self.now).is_none() {
            return;
        }
        if let Some(corrected) = self.terms.corrected(word, clock::now()) {
            entry.swap_tat(word, corrected);
        }
    }

    /// The bucket's word on the present terms; nothing where it is being removed or converted by
    /// another CPU, or has been taken further than this program knows.
    #[inline(always)]
    fn current_word(&self, entry: Entry) -> Option<u64> {
        let (epoch, word) = (entry.epoch(), entry.tat());
        if !bucket::is_time(word) {
            return None;
        }
        if epoch == self.epoch {
            return Some(word);
        }
        self.convert(entry, epoch, word)
    }

    /// Brings a bucket from past terms to the present ones, while [`CONVERTING`] keeps others away.
    #[inline(always)]
    fn convert(&self, entry: Entry, epoch: u32, word: u64) -> Option<u64> {
        let converted = terms::on_present(self.index, epoch, word)?;
        if !entry.swap_tat(word, CONVERTING) {
            return None;
        }
        // Another CPU may have converted it between the two reads that brought epoch and word, or the
        // entry may have become that of another limit, whose epochs are not these.
        if entry.epoch() != epoch || table::find(self.key) != Some(entry) {
            entry.swap_tat(CONVERTING, word);
            return None;
        }
        entry.set_epoch(self.epoch);
        // A compare-and-swap, because it orders the epoch before the word.
        entry.swap_tat(CONVERTING, converted);
        Some(converted)
    }
}
