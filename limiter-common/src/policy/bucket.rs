//! Charges one bucket for one packet: find, decide, compare-and-swap. This module handles races; the arithmetic is in
//! [`crate::arithmetic::bucket`].

use super::{Environment, Evaluation, Found, TimeBounds, attempt::Attempt};
use crate::{
    abi::rules::{FIRST, Limit, NO_BYTES, SECOND},
    arithmetic::bucket::{self, Decision},
    table::{
        Added,
        entry::{OVER, Shared, Stored, TAT, epoch_in, is_taken},
        key::SourceKey,
    },
};

/// Value of a packet's time before the clock is read.
pub const NOT_READ: u64 = Evaluation::NONE.now;

/// The cost of a packet of this [`crate::arithmetic::size`].
#[inline(always)]
pub(super) fn cost<E: Environment>(environment: &E, limit: &Limit, size: u64) -> u64 {
    if !E::IN_STACK && environment.constants().absent & NO_BYTES != 0 {
        return limit.quota.cost;
    }
    if E::IN_STACK {
        limit.quota.cost_of(size)
    } else {
        limit.quota.cost_of_one(size)
    }
}

/// True if a new source may take the place of a quiet one.
#[inline(always)]
pub(super) fn may_replace<E: Environment>(environment: &E) -> bool {
    environment.constants().second_chances.cost | environment.constants().proof != 0
}

/// A packet's demand on the bucket of one limit.
///
/// `INLINE`: search the bucket with [`Environment::likely`] instead of [`Environment::entry_number`].
pub struct Demand<'a, E: Environment, const INLINE: bool> {
    environment: &'a E,
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
    /// The TAT that a check has read, if it has admitted the packet.
    pub(super) read: u64,
    /// The TAT after the charge.
    pub(super) charged: u64,
    /// The budget of the source, if it is new: [`FIRST`], [`SECOND`] or [`PROVEN`](crate::abi::rules::PROVEN).
    pub(super) budget: u32,
}

impl<'a, E: Environment, const INLINE: bool> Demand<'a, E, INLINE> {
    /// The demand of a packet that costs `cost`, at `now`, on the bucket of `key`, last found in the entry `number`.
    #[inline(always)]
    pub fn new(
        environment: &'a E,
        limit: &'a Limit,
        key: &'a SourceKey,
        now: u64,
        cost: u64,
        number: u32,
    ) -> Self {
        Self {
            environment,
            limit,
            key,
            now,
            cost,
            number,
            found: E::Found::NONE,
            read: 0,
            charged: 0,
            budget: FIRST,
        }
    }

    /// Finds the entry of the bucket. Another source may take it at any time.
    #[inline(always)]
    pub fn find(&mut self) -> Option<E::Entry> {
        if let Some(entry) = self.environment.entry(self.number)
            && entry.is_of(self.key)
            && is_taken(entry.load(TAT))
        {
            return Some(entry);
        }
        self.search()
    }

    /// Finds the entry of the bucket by its key.
    #[inline(always)]
    fn search(&mut self) -> Option<E::Entry> {
        self.number = self.environment.entry_number(self.key);
        self.environment.entry(self.number)
    }

    /// The entry that has most likely the bucket: the last one, or the one with the key's address. The caller compares the
    /// key. None if there is no bucket.
    #[inline(always)]
    fn likely(&mut self) -> Option<E::Entry> {
        if let Some(entry) = self.environment.entry(self.number) {
            return Some(entry);
        }
        if !INLINE {
            return self.search();
        }
        let entry = self.environment.likely(self.key)?;
        self.number = self.environment.number_of(entry);
        Some(entry)
    }

    /// Checks the bucket without charging it. [`Attempt::Lost`] if another CPU is writing the entry: then the charge
    /// decides.
    #[inline(always)]
    pub fn check(&mut self) -> Attempt {
        self.attempt(false)
    }

    /// Charges the bucket if it has enough tokens.
    #[inline(always)]
    pub fn charge(&mut self) -> Attempt {
        self.attempt(true)
    }

    #[inline(always)]
    fn attempt(&mut self, charging: bool) -> Attempt {
        let Some(entry) = self.likely() else {
            return Attempt::New;
        };
        let (entry, stored) = match entry.read(self.key, self.limit.epoch) {
            Stored::Elsewhere => {
                let Some(entry) = self.search() else {
                    return Attempt::New;
                };
                (entry, entry.read(self.key, self.limit.epoch))
            }
            stored => (entry, stored),
        };
        self.found = entry.into();
        let tat = match stored {
            Stored::Present(tat) => tat,
            Stored::Stale => return Attempt::Stale,
            Stored::Busy | Stored::Elsewhere => return Attempt::Lost,
        };
        match self.decide(tat, charging) {
            Decision::Refuse { .. } if !entry.has_still(tat) => Attempt::Lost,
            Decision::Refuse { .. } if self.is_too_far_ahead(tat) => Attempt::Stale,
            Decision::Refuse { .. } => Attempt::Refused,
            Decision::Admit { tat: charged } if charging => {
                if entry.charge_read(self.key, tat, charged) {
                    self.charged = charged;
                    Attempt::Admitted
                } else {
                    Attempt::Lost
                }
            }
            Decision::Admit { tat: charged } => {
                (self.read, self.charged) = (tat, charged);
                Attempt::Admitted
            }
        }
    }

    /// Makes a full bucket, charges it, and counts the packet for its source. `pay`: takes a new-source token.
    /// [`Attempt::Lost`] if another CPU has made the bucket.
    #[inline(always)]
    pub fn charge_new(&mut self, pay: bool) -> Attempt {
        // A packet that has paid as a first-time source pays again for a second chance.
        let pay_second = pay || self.budget == FIRST;
        if self.is_exhausted(self.key) {
            return Attempt::RefusedNew;
        }
        let Decision::Admit { tat } = self.decide_new() else {
            return Attempt::Refused;
        };
        if !self.admits(self.key, pay, pay_second) {
            return Attempt::RefusedNew;
        }
        match self.insert(tat, false) {
            Added::Done => Attempt::Admitted,
            Added::Raced => Attempt::Lost,
            Added::NoRoom if may_replace(self.environment) => Attempt::NoRoom(self.budget),
            Added::NoRoom => Attempt::RefusedNew,
        }
    }

    /// [`Self::charge_new`] of a source that has found no room: in the place of a quiet source, by second chance or proof.
    /// It takes a token of second chances, unless it has one.
    #[inline(always)]
    pub fn replace(&mut self) -> Attempt {
        let now = self.now();
        if self.budget == FIRST {
            if !self.environment.was_refused(self.key)
                || !self.environment.admits(self.key, now, SECOND, true)
            {
                return Attempt::RefusedNew;
            }
            self.budget = SECOND;
        }
        let Decision::Admit { tat } = self.decide_new() else {
            return Attempt::Refused;
        };
        match self.insert(tat, true) {
            Added::Done => Attempt::Admitted,
            Added::Raced => Attempt::Lost,
            Added::NoRoom => Attempt::RefusedNew,
        }
    }

    #[inline(always)]
    fn decide_new(&mut self) -> Decision {
        let now = self.now();
        let quota = &self.limit.quota;
        quota.decide(quota.full(now), now, self.cost)
    }

    #[inline(always)]
    fn insert(&mut self, tat: u64, replaces: bool) -> Added {
        self.charged = tat;
        let epoch = self.limit.epoch;
        self.environment
            .insert(self.key, tat, epoch, self.now, replaces)
    }

    /// True if the limit has just refused a new source, and refuses this one too, which has no second chance. Its
    /// refusals are remembered under `known_as`.
    #[inline(always)]
    fn is_exhausted(&mut self, known_as: &SourceKey) -> bool {
        if self.budget != FIRST || !self.environment.is_exhausted(self.key.slot()) {
            return false;
        }
        self.budget = self.environment.was_refused(known_as).into();
        self.budget == FIRST
    }

    /// True if the limit has a token and room for the new source, or a token of another budget. `take`, `take_second`:
    /// takes the token.
    #[inline(always)]
    fn admits(&mut self, known_as: &SourceKey, take: bool, take_second: bool) -> bool {
        let now = self.now();
        if self.budget == FIRST {
            if self.environment.admits(self.key, now, FIRST, take) {
                return true;
            }
            self.budget = self.environment.was_refused(known_as).into();
        }
        self.budget != FIRST
            && self
                .environment
                .admits(self.key, now, self.budget, take_second)
    }

    /// True if a new bucket can be made. The token stays in the lease until the packet is charged.
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
        let Stored::Present(tat) = entry.read(self.key, self.limit.epoch) else {
            return true;
        };
        let now = || self.environment.now();
        match self.limit.quota.held(tat, now, self.cost) {
            Some(held) => entry.charge_read(self.key, tat, held),
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
        let Stored::Present(tat) = entry.read(self.key, self.limit.epoch) else {
            return true;
        };
        // The clock is read after the TAT, so that the TAT has all charges up to this time.
        let present = self.environment.now();
        let refunded = self.limit.quota.refunded(tat, self.cost, self.now, present);
        entry.charge_read(self.key, tat, refunded)
    }

    /// Decides about the packet. Reads the clock only if the bounds of the time leave the decision open, or before a
    /// charge. A late tick makes the upper bound too low, which may refuse a packet, but must not admit one.
    #[inline(always)]
    fn decide(&mut self, tat: u64, charging: bool) -> Decision {
        if self.now == NOT_READ
            && let Some(TimeBounds { earliest, latest }) = self.environment.time_bounds()
        {
            let quota = &self.limit.quota;
            match quota.decide_within(tat, earliest, latest, self.cost) {
                // A charge needs the exact time.
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
            self.now = self.environment.now();
        }
        self.now
    }

    /// True if the TAT is further ahead than packets can bring it. If the clock was not read, the bounds have ruled
    /// that out.
    #[inline(always)]
    fn is_too_far_ahead(&self, tat: u64) -> bool {
        self.now != NOT_READ && self.limit.quota.corrected(tat, self.now).is_some()
    }
}

/// Converts the bucket of `key`, under the limit with this index, from a past quota to the present one. Corrects a TAT
/// that is too far ahead because the clock was set back, so that no source is locked out.
#[inline(always)]
pub fn refresh<E: Environment>(environment: &E, key: &SourceKey, index: u32) {
    if let Some(limit) = environment.constants().limit(index)
        && let Some(entry) = environment.entry(environment.entry_number(key))
    {
        let (over, tat) = (entry.load(OVER), entry.load(TAT));
        let epoch = epoch_in(over, limit.epoch);
        if !bucket::is_time(tat) {
            return;
        }
        if epoch != limit.epoch {
            // None if the epoch is later than this program's: another program has replaced this one.
            if let Some(converted) = environment.on_present(index, epoch, tat) {
                entry.convert(key, over, tat, converted, limit.epoch);
            }
        } else if let Some(corrected) = limit.quota.corrected(tat, environment.now()) {
            // The clock is read after the TAT: a virtual CPU may have been stopped for milliseconds after its last
            // reading, while other CPUs charged the bucket.
            entry.charge(key, tat, corrected);
        }
    }
}
