//! One packet and one bucket: find, decide, one compare-and-swap. This module handles races; the arithmetic is in
//! [`crate::arithmetic::bucket`].

use super::{Between, Engine, Evaluation, Found, Limit};
use crate::{
    arithmetic::{
        bucket::{self, Decision},
        quota::Quota,
    },
    policy::verdict::Reason,
    table::{
        Added,
        entry::{OVER, Protocol, Shared, TAT, epoch_in, is_taken},
        key::Tag,
    },
};

/// Losing this often means that others made progress as often; then the packet is refused.
pub const ATTEMPTS: u32 = 8;

/// Instead of the time: the clock has not been read for this packet.
pub const NOT_READ: u64 = Evaluation::NONE.now;

/// The decision of a limit, and the entry with the bucket.
#[derive(Clone, Copy)]
pub struct Charged<F> {
    /// [`Reason::Admitted`], [`Reason::Limit`], [`Reason::NewSource`] or [`Reason::Contended`].
    pub reason: Reason,
    /// The entry that counts the packet; nowhere if there is none, or if the packet is counted already.
    pub entry: F,
}

impl<F> Charged<F> {
    /// A decision without an entry.
    #[inline(always)]
    pub fn nowhere<E>(reason: Reason) -> Self
    where
        F: Found<E>,
    {
        Self {
            reason,
            entry: F::NOWHERE,
        }
    }
}

/// The decision of a limit that has this number.
#[must_use]
#[inline(always)]
pub const fn reason(number: u32) -> Reason {
    const ADMITTED: u32 = Reason::Admitted as u32;
    const LIMIT: u32 = Reason::Limit as u32;
    const NEW_SOURCE: u32 = Reason::NewSource as u32;
    match number {
        ADMITTED => Reason::Admitted,
        LIMIT => Reason::Limit,
        NEW_SOURCE => Reason::NewSource,
        _ => Reason::Contended,
    }
}

/// The result of one try to check or to charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Tried {
    /// The bucket has enough, and is charged if it was to be.
    Admitted,
    /// It has not.
    Refused,
    /// There is no bucket yet: it is full, and to be made.
    New,
    /// [`refresh`] is to be called first.
    Stale,
    /// Another CPU was faster: try again.
    Lost,
}

impl Tried {
    /// The result with this number.
    #[must_use]
    #[inline(always)]
    pub const fn from_number(number: u32) -> Self {
        const ADMITTED: u32 = Tried::Admitted as u32;
        const REFUSED: u32 = Tried::Refused as u32;
        const NEW: u32 = Tried::New as u32;
        const STALE: u32 = Tried::Stale as u32;
        match number {
            ADMITTED => Self::Admitted,
            REFUSED => Self::Refused,
            NEW => Self::New,
            STALE => Self::Stale,
            _ => Self::Lost,
        }
    }
}

/// A packet that asks one limit to admit it.
///
/// `IN_LINE`: the bucket is found by [`Engine::find`] if its place is not known, else by [`Engine::place_of`].
pub struct Demand<'a, E: Engine, const IN_LINE: bool> {
    engine: &'a E,
    limit: E::Limit,
    tag: &'a Tag,
    /// Time at which the packet came, in nanoseconds, or [`NOT_READ`] until the time must be known.
    pub(super) now: u64,
    cost: u64,
    /// Number of the entry in which the bucket was last seen, or 0: looked at first.
    pub(super) place: u32,
    /// The entry in which the bucket was found.
    pub(super) found: E::Found,
}

impl<'a, E: Engine, const IN_LINE: bool> Demand<'a, E, IN_LINE> {
    /// A packet of `length` bytes that came at `now`, for the bucket of `tag`, which was last seen at `place`.
    #[inline(always)]
    pub fn new(
        engine: &'a E,
        limit: E::Limit,
        tag: &'a Tag,
        now: u64,
        length: u64,
        place: u32,
    ) -> Self {
        Self {
            engine,
            limit,
            tag,
            now,
            cost: limit.quota().cost_of(length),
            place,
            found: E::Found::NOWHERE,
        }
    }

    /// The entry of the bucket, which others may take at any moment.
    #[inline(always)]
    pub fn find(&mut self) -> Option<E::Entry> {
        if let Some(entry) = self.engine.entry(self.place)
            && entry.is_of(self.tag)
            && is_taken(entry.load(TAT))
        {
            return Some(entry);
        }
        if IN_LINE {
            return self.engine.find(self.tag);
        }
        self.place = self.engine.place_of(self.tag);
        self.engine.entry(self.place)
    }

    #[inline(always)]
    fn quota(&self) -> Quota {
        self.limit.quota()
    }

    /// The bucket's decision at this moment, without a charge. [`Tried::Lost`] if another CPU is at work on the bucket:
    /// the charge decides then.
    #[inline(always)]
    pub fn check(&mut self) -> Tried {
        self.attempt(false)
    }

    /// Charges the bucket, if it has enough.
    #[inline(always)]
    pub fn charge(&mut self) -> Tried {
        self.attempt(true)
    }

    #[inline(always)]
    fn attempt(&mut self, charging: bool) -> Tried {
        let Some(entry) = self.find() else {
            return Tried::New;
        };
        self.found = entry.into();
        let tat = match self.tat(entry) {
            Stored::Present(tat) => tat,
            Stored::Busy => return Tried::Lost,
            Stored::Stale => return Tried::Stale,
        };
        match self.decide(tat, charging) {
            Decision::Refuse { .. } if !entry.is_of(self.tag) => Tried::Lost,
            Decision::Refuse { .. } if self.is_too_far_ahead(tat) => Tried::Stale,
            Decision::Refuse { .. } => Tried::Refused,
            Decision::Admit { tat: charged } => {
                if !charging || entry.charge(self.tag, tat, charged) {
                    Tried::Admitted
                } else {
                    Tried::Lost
                }
            }
        }
    }

    /// Makes a bucket, which is full, charges it, and counts the packet for its source. Takes a token of the new-source
    /// limit if `pay`. None if there is a bucket after all.
    #[inline(always)]
    pub fn charge_new(&mut self, pay: bool) -> Option<Reason> {
        if self.engine.is_out(self.tag.slot()) {
            return Some(Reason::NewSource);
        }
        let now = self.now();
        let full = self.quota().full(now);
        let Decision::Admit { tat } = self.quota().decide(full, now, self.cost) else {
            return Some(Reason::Limit);
        };
        if !self.engine.admits(self.tag, now, pay) {
            return Some(Reason::NewSource);
        }
        match self.engine.insert(self.tag, tat, self.limit.epoch(), now) {
            Added::Done | Added::Replaced => Some(Reason::Admitted),
            Added::Raced => None,
            Added::NoRoom => Some(Reason::NewSource),
        }
    }

    /// Tries once to take a charge back, because another limit has refused the packet after all. False if another CPU
    /// was faster. A bucket that is missing or not on the present quota stays charged, which errs towards refusing. The
    /// clock was read before the charge.
    #[inline(always)]
    pub fn refund(&mut self) -> bool {
        let Some(entry) = self.find() else {
            return true;
        };
        let Stored::Present(tat) = self.tat(entry) else {
            return true;
        };
        // Read after the TAT: charges up to this moment are in the TAT.
        let present = self.engine.now();
        let refunded = self.quota().refunded(tat, self.cost, self.now, present);
        entry.charge(self.tag, tat, refunded)
    }

    /// Decides about the packet. The clock is read only where its bounds leave that open, and before
    /// anything is charged: a tick may come late, and then the upper bound is too low. A packet may be refused
    /// because of that, but none may pass.
    #[inline(always)]
    fn decide(&mut self, tat: u64, charging: bool) -> Decision {
        if self.now == NOT_READ
            && let Some(Between { earliest, latest }) = self.engine.between()
        {
            let decided = self
                .quota()
                .decide_between(tat, earliest, latest, self.cost);
            match decided {
                Some(Decision::Admit { .. }) if charging => {}
                Some(decision) => return decision,
                None => {}
            }
        }
        let now = self.now();
        self.quota().decide(tat, now, self.cost)
    }

    /// The time at which the packet came, in nanoseconds.
    #[inline(always)]
    fn now(&mut self) -> u64 {
        if self.now == NOT_READ {
            self.now = self.engine.now();
        }
        self.now
    }

    /// Whether the TAT is further ahead than any packet could have brought it. Where the bounds of the time
    /// were enough, it is not.
    #[inline(always)]
    fn is_too_far_ahead(&self, tat: u64) -> bool {
        self.now != NOT_READ && self.quota().corrected(tat, self.now).is_some()
    }

    #[inline(always)]
    fn tat(&self, entry: E::Entry) -> Stored {
        let epoch = self.limit.epoch();
        // Before the TAT and after it: another program, which is about to take the place of this one or has
        // done so, may convert it meanwhile.
        let before = epoch_in(entry.load(OVER), epoch);
        let tat = entry.load(TAT);
        let after = epoch_in(entry.load(OVER), epoch);
        if !bucket::is_time(tat) {
            Stored::Busy
        } else if before == epoch && after == epoch {
            Stored::Present(tat)
        } else {
            Stored::Stale
        }
    }
}

/// The content of a bucket.
enum Stored {
    /// Its TAT, on the present quota.
    Present(u64),
    /// Another CPU is at work on it, or it has been forgotten.
    Busy,
    /// A TAT on past quota.
    Stale,
}

/// Converts the bucket of `tag`, of the limit with this index, from an earlier quota to the present one. Also corrects
/// a TAT that a clock which was set back has left too far ahead, so that no source is locked out. The first CPU that
/// needs it does it. Always 0.
#[inline(always)]
pub fn refresh<E: Engine>(engine: &E, tag: &Tag, index: u32) -> u32 {
    if let Some(limit) = engine.limit(index)
        && let Some(entry) = engine.entry(engine.place_of(tag))
    {
        let (over, tat) = (entry.load(OVER), entry.load(TAT));
        let epoch = epoch_in(over, limit.epoch());
        if !bucket::is_time(tat) {
            return 0;
        }
        if epoch != limit.epoch() {
            // None if the epoch is later than this program's, which is at its last packets.
            if let Some(converted) = engine.on_present(index, epoch, tat) {
                entry.convert(tag, over, tat, converted, limit.epoch());
            }
        } else if let Some(corrected) = limit.quota().corrected(tat, engine.now()) {
            // The clock is read after the TAT: this CPU may have been stopped (a virtual one is, for
            // milliseconds) between its last reading and the bucket, which others went on charging.
            entry.charge(tag, tat, corrected);
        }
    }
    0
}
