//! Charges one bucket for one packet: find, decide, compare-and-swap. This module handles races; the arithmetic is in
//! [`crate::arithmetic::bucket`].

use super::{Engine, Evaluation, Found, TimeBounds};
use crate::{
    abi::rules::{FIRST, Limit, SECOND},
    arithmetic::bucket::{self, Decision},
    policy::verdict::Reason,
    table::{
        Added,
        entry::{OVER, Shared, TAT, epoch_in, is_taken},
        key::SourceKey,
    },
};

/// Attempts to charge a bucket. If other CPUs win all of them, the packet is refused.
pub const ATTEMPTS: u32 = 8;

/// Value of a packet's time before the clock is read.
pub const NOT_READ: u64 = Evaluation::NONE.now;

/// The decision of a limit, and the entry that counts the packet. The decision is [`Reason::Admitted`],
/// [`Reason::Limit`], [`Reason::NewSource`], [`Reason::Answered`] or [`Reason::Contended`]. There is no entry if the
/// source has none, or if the packet is already counted.
pub type Charged<F> = (Reason, F);

/// The reason with this number, of those that a limit decides.
#[inline(always)]
pub const fn reason(number: u32) -> Reason {
    const ADMITTED: u32 = Reason::Admitted as u32;
    const LIMIT: u32 = Reason::Limit as u32;
    const NEW_SOURCE: u32 = Reason::NewSource as u32;
    const ANSWERED: u32 = Reason::Answered as u32;
    match number {
        ADMITTED => Reason::Admitted,
        LIMIT => Reason::Limit,
        NEW_SOURCE => Reason::NewSource,
        ANSWERED => Reason::Answered,
        _ => Reason::Contended,
    }
}

/// Whether a new source may take the place of a quiet one.
#[inline(always)]
pub(super) fn may_replace<E: Engine>(engine: &E) -> bool {
    engine.config().second_chances.cost | engine.config().proof != 0
}

// Codes of an attempt to check or charge a bucket, and of the steps of the full path.

/// The bucket has enough tokens, and a charge has taken them. For a step: the limit does not refuse the packet.
pub const DONE: u32 = 0;
/// The bucket has too few tokens: the limit refuses the packet.
pub const REFUSED: u32 = 1;
/// The source has no bucket. A missing bucket counts as full.
pub const NEW: u32 = 2;
/// The caller must call [`refresh`] first; on the full path [`super::step::Step::refresh`].
pub const STALE: u32 = 3;
/// Another CPU was faster. The caller must try again.
pub const LOST: u32 = 4;
/// A new source has found no room. The caller must call `replace`, a separate step, because the stack is small.
pub const FULL: u32 = 5;

/// A packet's demand on the bucket of one limit.
///
/// `INLINE`: search the bucket with [`Engine::find`] instead of [`Engine::entry_number`].
pub struct Demand<'a, E: Engine, const INLINE: bool> {
    engine: &'a E,
    limit: &'a Limit,
    key: &'a SourceKey,
    /// Arrival time of the packet, in nanoseconds; [`NOT_READ`] until it is needed.
    pub(super) now: u64,
    /// Ticks, or tokens of a window.
    pub(super) cost: u64,
    /// Number of the entry in which the bucket was last found, or 0. This entry is tried first.
    pub(super) number: u32,
    /// The entry in which the bucket was found.
    pub(super) found: E::Found,
    /// The TAT that a check has read, and the TAT after the charge; 0 if the check has not admitted the packet.
    pub(super) planned: (u64, u64),
    /// The TAT after the charge.
    pub(super) charged: u64,
    /// The budget of the source, if it is new: [`FIRST`], [`SECOND`] or [`PROVEN`](crate::abi::rules::PROVEN).
    pub(super) budget: u32,
    /// The new source has found no room: the caller must call [`Self::replace`].
    pub(super) found_no_room: bool,
}

impl<'a, E: Engine, const INLINE: bool> Demand<'a, E, INLINE> {
    /// The demand of a packet that costs `cost`, at `now`, on the bucket of `key`, last found in the entry `number`.
    #[inline(always)]
    pub fn new(
        engine: &'a E,
        limit: &'a Limit,
        key: &'a SourceKey,
        now: u64,
        cost: u64,
        number: u32,
    ) -> Self {
        Self {
            engine,
            limit,
            key,
            now,
            cost,
            number,
            found: E::Found::NONE,
            planned: (0, 0),
            charged: 0,
            budget: FIRST,
            found_no_room: false,
        }
    }

    /// Finds the entry of the bucket. Another source may take it at any time.
    #[inline(always)]
    pub fn find(&mut self) -> Option<E::Entry> {
        if let Some(entry) = self.engine.entry(self.number)
            && entry.is_of(self.key)
            && is_taken(entry.load(TAT))
        {
            return Some(entry);
        }
        if INLINE {
            let found = self.engine.find(self.key);
            if let Some(entry) = found {
                self.number = self.engine.number_of(entry);
            }
            return found;
        }
        self.number = self.engine.entry_number(self.key);
        self.engine.entry(self.number)
    }

    /// Checks the bucket without charging it. [`LOST`] if another CPU is writing the entry: then the charge
    /// decides.
    #[inline(always)]
    pub fn check(&mut self) -> u32 {
        self.attempt(false)
    }

    /// Charges the bucket if it has enough tokens.
    #[inline(always)]
    pub fn charge(&mut self) -> u32 {
        self.attempt(true)
    }

    #[inline(always)]
    fn attempt(&mut self, charging: bool) -> u32 {
        let Some(entry) = self.find() else {
            return NEW;
        };
        self.found = entry.into();
        let tat = match self.tat(entry) {
            Stored::Present(tat) => tat,
            Stored::Busy => return LOST,
            Stored::Stale => return STALE,
        };
        match self.decide(tat, charging) {
            Decision::Refuse { .. } if !entry.is_of(self.key) => LOST,
            Decision::Refuse { .. } if self.is_too_far_ahead(tat) => STALE,
            Decision::Refuse { .. } => REFUSED,
            Decision::Admit { tat: charged } if charging => {
                if entry.charge(self.key, tat, charged) {
                    self.charged = charged;
                    DONE
                } else {
                    LOST
                }
            }
            Decision::Admit { tat: charged } => {
                self.planned = (tat, charged);
                DONE
            }
        }
    }

    /// Makes a full bucket, charges it, and counts the packet for its source. `pay`: takes a new-source token. None if
    /// another CPU has made the bucket.
    #[inline(always)]
    pub fn charge_new(&mut self, pay: bool) -> Option<Reason> {
        // A packet that has paid as a first-time source pays again for a second chance.
        let pay_second = pay || self.budget == FIRST;
        if self.is_exhausted(self.key) {
            return Some(Reason::NewSource);
        }
        let Decision::Admit { tat } = self.decide_new() else {
            return Some(Reason::Limit);
        };
        if !self.admits(self.key, pay, pay_second) {
            return Some(Reason::NewSource);
        }
        let added = self.insert(tat, false);
        self.found_no_room = matches!(added, Some(Reason::NewSource));
        added
    }

    /// [`Self::charge_new`] of a source that has found no room: in the place of a quiet source, by second chance or proof.
    /// It takes a token of second chances, unless it has one.
    #[inline(always)]
    pub fn replace(&mut self) -> Option<Reason> {
        let now = self.now();
        if self.budget == FIRST {
            if !self.engine.was_refused(self.key)
                || !self.engine.admits(self.key, now, SECOND, true)
            {
                return Some(Reason::NewSource);
            }
            self.budget = SECOND;
        }
        match self.decide_new() {
            Decision::Admit { tat } => self.insert(tat, true),
            Decision::Refuse { .. } => Some(Reason::Limit),
        }
    }

    #[inline(always)]
    fn decide_new(&mut self) -> Decision {
        let now = self.now();
        let quota = &self.limit.quota;
        quota.decide(quota.full(now), now, self.cost)
    }

    #[inline(always)]
    fn insert(&mut self, tat: u64, replaces: bool) -> Option<Reason> {
        self.charged = tat;
        let epoch = self.limit.epoch;
        match self.engine.insert(self.key, tat, epoch, self.now, replaces) {
            Added::Done => Some(Reason::Admitted),
            Added::Raced => None,
            Added::NoRoom => Some(Reason::NewSource),
        }
    }

    /// Whether the limit has just refused a new source, and refuses this one too, which has no second chance. Its
    /// refusals are remembered under `known_as`.
    #[inline(always)]
    fn is_exhausted(&mut self, known_as: &SourceKey) -> bool {
        if self.budget != FIRST || !self.engine.is_exhausted(self.key.slot()) {
            return false;
        }
        self.budget = self.engine.was_refused(known_as).into();
        self.budget == FIRST
    }

    /// Whether the limit has a token and room for the new source, or a token of another budget. `take`, `take_second`:
    /// takes the token.
    #[inline(always)]
    fn admits(&mut self, known_as: &SourceKey, take: bool, take_second: bool) -> bool {
        let now = self.now();
        if self.budget == FIRST {
            if self.engine.admits(self.key, now, FIRST, take) {
                return true;
            }
            self.budget = self.engine.was_refused(known_as).into();
        }
        self.budget != FIRST && self.engine.admits(self.key, now, self.budget, take_second)
    }

    /// Whether a new bucket can be made. The token stays in the lease until the packet is charged.
    #[inline(always)]
    pub fn can_be_made(&mut self, known_as: &SourceKey) -> bool {
        !self.is_exhausted(known_as) && self.admits(known_as, false, false)
    }

    /// Tries once to hold a bucket that has refused the packet. Returns false if another CPU was faster. A bucket that
    /// is missing or on a past quota is not held: its next refusal holds it. Neither is one that has a token by now,
    /// because another packet's charge was refunded.
    #[inline(always)]
    pub fn hold(&mut self) -> bool {
        let Some(entry) = self.find() else {
            return true;
        };
        let Stored::Present(tat) = self.tat(entry) else {
            return true;
        };
        let now = || self.engine.now();
        match self.limit.quota.held(tat, now, self.cost) {
            Some(held) => entry.charge(self.key, tat, held),
            None => true,
        }
    }

    /// Tries once to refund a charge, because a later limit has refused the packet. Returns false if another CPU was
    /// faster. A bucket that is missing or on a past quota gets no refund, which errs towards refusing. The caller has
    /// read the clock before the charge.
    #[inline(always)]
    pub fn refund(&mut self) -> bool {
        let Some(entry) = self.find() else {
            return true;
        };
        let Stored::Present(tat) = self.tat(entry) else {
            return true;
        };
        // The clock is read after the TAT, so that the TAT has all charges up to this time.
        let present = self.engine.now();
        let refunded = self.limit.quota.refunded(tat, self.cost, self.now, present);
        entry.charge(self.key, tat, refunded)
    }

    /// Decides about the packet. Reads the clock only if the bounds of the time leave the decision open, or before a
    /// charge. A late tick makes the upper bound too low, which may refuse a packet, but must not admit one.
    #[inline(always)]
    fn decide(&mut self, tat: u64, charging: bool) -> Decision {
        if self.now == NOT_READ
            && let Some(TimeBounds { earliest, latest }) = self.engine.time_bounds()
        {
            let decided = self
                .limit
                .quota
                .decide_within(tat, earliest, latest, self.cost);
            match decided {
                Some(Decision::Admit { .. }) if charging => {}
                Some(decision) => return decision,
                None => {}
            }
        }
        let now = self.now();
        self.limit.quota.decide(tat, now, self.cost)
    }

    /// Arrival time of the packet, in nanoseconds.
    #[inline(always)]
    fn now(&mut self) -> u64 {
        if self.now == NOT_READ {
            self.now = self.engine.now();
        }
        self.now
    }

    /// Whether the TAT is further ahead than packets can bring it. If the clock was not read, the bounds have ruled
    /// that out.
    #[inline(always)]
    fn is_too_far_ahead(&self, tat: u64) -> bool {
        self.now != NOT_READ && self.limit.quota.corrected(tat, self.now).is_some()
    }

    #[inline(always)]
    fn tat(&self, entry: E::Entry) -> Stored {
        let epoch = self.limit.epoch;
        // The epoch is read before and after the TAT: during a change, the other program may convert the TAT meanwhile.
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

/// The stored state of a bucket.
enum Stored {
    /// A TAT on the present quota.
    Present(u64),
    /// No TAT: another CPU is writing the entry, or the source was reset.
    Busy,
    /// A TAT on a past quota.
    Stale,
}

/// Converts the bucket of `key`, under the limit with this index, from a past quota to the present one. Corrects a TAT
/// that is too far ahead because the clock was set back, so that no source is locked out. Returns 0.
#[inline(always)]
pub fn refresh<E: Engine>(engine: &E, key: &SourceKey, index: u32) -> u32 {
    if let Some(limit) = engine.config().limit(index)
        && let Some(entry) = engine.entry(engine.entry_number(key))
    {
        let (over, tat) = (entry.load(OVER), entry.load(TAT));
        let epoch = epoch_in(over, limit.epoch);
        if !bucket::is_time(tat) {
            return 0;
        }
        if epoch != limit.epoch {
            // None if the epoch is later than this program's: another program has replaced this one.
            if let Some(converted) = engine.on_present(index, epoch, tat) {
                entry.convert(key, over, tat, converted, limit.epoch);
            }
        } else if let Some(corrected) = limit.quota.corrected(tat, engine.now()) {
            // The clock is read after the TAT: a virtual CPU may have been stopped for milliseconds after its last
            // reading, while other CPUs charged the bucket.
            entry.charge(key, tat, corrected);
        }
    }
    0
}
