//! Takes the packet's cost from one bucket, or refuses it: lookup, decision, one compare-and-swap. The
//! arithmetic is in `limiter_common`; here is only what a race needs.

use limiter_common::{
    bucket::{self, Decision},
    entry::{OVER, Protocol, Shared, epoch_in},
    key::Tag,
    limit::Terms,
    verdict::Reason,
};

use crate::clock::{self, Between};
use crate::entry::{Entry, Found};
use crate::table::{self, Added};
use crate::{config, newcomers, terms};

/// Losing this often means that others made progress as often; then the packet is refused.
pub const ATTEMPTS: u32 = 8;

/// Instead of the time: the clock has not been read for this packet.
pub const NOT_READ: u64 = 0;

/// What a bucket said, and the entry that it stands in.
pub struct Charged {
    /// [`Reason::Admitted`], [`Reason::Limit`], [`Reason::Newcomer`] or [`Reason::Contended`].
    pub reason: Reason,
    /// For the source's own figures; nowhere, where it has none, or they have the packet in them.
    pub entry: Found,
}

impl From<Reason> for Charged {
    #[inline(always)]
    fn from(reason: Reason) -> Self {
        Self {
            reason,
            entry: Found::NOWHERE,
        }
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
    /// The bucket has enough, and is charged.
    Admitted,
    /// It has not.
    Refused,
    /// There is no bucket yet: it is full, and to be made.
    New,
    /// Another CPU was faster: try again.
    Lost,
    /// [`refresh`] is to be called first.
    Stale,
}

/// What one try to weigh has come to.
pub enum Weighed {
    /// The bucket would say this.
    Said(Reason),
    /// There is no bucket yet: it is full, and to be made.
    New,
    /// [`refresh`] is to be called first.
    Stale,
}

/// A packet that wants to pass one limit.
///
/// `IN_LINE`: the bucket is looked for without a call. The verifier checks that anew in each function that
/// does so.
pub struct Demand<'a, const IN_LINE: bool> {
    limit: config::Limit,
    key: &'a Tag,
    now: &'a mut u64,
    cost: u64,
    /// Where the bucket was last found. Not in what functions return: LLVM would copy a register that was
    /// never written in the cases in which there is none, which the verifier refuses.
    entry: Found,
}

impl<'a, const IN_LINE: bool> Demand<'a, IN_LINE> {
    /// A packet of `length` bytes, for the bucket of `key`. `now` is when it came, in nanoseconds, or
    /// [`NOT_READ`] until somebody must know.
    #[inline(always)]
    pub fn new(limit: config::Limit, key: &'a Tag, now: &'a mut u64, length: u64) -> Self {
        Self {
            limit,
            key,
            now,
            cost: limit.terms().cost_of(length),
            entry: Found::NOWHERE,
        }
    }

    #[inline(always)]
    fn find(&self) -> Option<Entry> {
        if IN_LINE {
            table::find_in_line(self.key)
        } else {
            table::find(self.key)
        }
    }

    /// Read where they are needed, because the stack has no room to keep them.
    #[inline(always)]
    fn terms(&self) -> Terms {
        self.limit.terms()
    }

    /// What the bucket would say at this moment, charging nothing.
    #[inline(always)]
    pub fn weigh(&mut self) -> Weighed {
        let Some(entry) = self.find() else {
            return Weighed::New;
        };
        self.entry = entry.into();
        let word = match self.word(entry) {
            Word::Present(word) => word,
            // Another CPU is at work on it: charging will tell.
            Word::Busy => return Weighed::Said(Reason::Admitted),
            Word::Stale => return Weighed::Stale,
        };
        match self.decide(word, false) {
            Decision::Refuse { .. } if !entry.is_of(self.key) => Weighed::Said(Reason::Admitted),
            Decision::Refuse { .. } if self.is_too_far_ahead(word) => Weighed::Stale,
            Decision::Refuse { .. } => Weighed::Said(Reason::Limit),
            Decision::Admit { .. } => Weighed::Said(Reason::Admitted),
        }
    }

    /// Takes a charge back, because another limit has refused the packet after all. Where that fails,
    /// the charge stays: that errs towards refusing. The clock was read before the charge.
    #[inline(always)]
    pub fn refund(&mut self) {
        for _ in 0..ATTEMPTS {
            if self.refund_once() {
                return;
            }
        }
    }

    /// The same, with one try. Returns whether there is no more to be done.
    #[inline(always)]
    pub fn refund_once(&mut self) -> bool {
        let Some(entry) = self.find() else {
            return true;
        };
        let Word::Present(word) = self.word(entry) else {
            return true;
        };
        // Read after the word: what was charged until then is in it.
        let present = clock::now();
        let refunded = self.terms().refunded(word, self.cost, *self.now, present);
        entry.charge(self.key, word, refunded)
    }

    /// What [`Self::charge_known`] has done.
    #[inline(always)]
    pub fn charged(&self, reason: Reason) -> Charged {
        Charged {
            reason,
            entry: self.entry,
        }
    }

    /// Makes a bucket, which is full, charges it, and counts the packet for its source; takes a token for a new source if
    /// `pay`. Nothing where there is one after all.
    #[inline(always)]
    pub fn charge_new(&mut self, pay: bool) -> Option<Reason> {
        if newcomers::are_out(self.key.slot()) {
            return Some(Reason::Newcomer);
        }
        let now = self.now();
        let full = self.terms().full(now);
        let Decision::Admit { tat } = self.terms().decide(full, now, self.cost) else {
            return Some(Reason::Limit);
        };
        if !table::admits(self.key, now, pay) {
            return Some(Reason::Newcomer);
        }
        match table::add(self.key, tat, self.limit.epoch(), now) {
            Added::Done | Added::Replaced => Some(Reason::Admitted),
            Added::Raced => None,
            Added::NoRoom => Some(Reason::Newcomer),
        }
    }

    /// Charges the bucket, if it has enough; tells where there is no bucket.
    #[inline(always)]
    pub fn charge_known(&mut self) -> Tried {
        let Some(entry) = self.find() else {
            return Tried::New;
        };
        self.entry = entry.into();
        let word = match self.word(entry) {
            Word::Present(word) => word,
            Word::Busy => return Tried::Lost,
            Word::Stale => return Tried::Stale,
        };
        match self.decide(word, true) {
            Decision::Refuse { .. } if !entry.is_of(self.key) => Tried::Lost,
            Decision::Refuse { .. } if self.is_too_far_ahead(word) => Tried::Stale,
            Decision::Refuse { .. } => Tried::Refused,
            Decision::Admit { tat: charged } if entry.charge(self.key, word, charged) => {
                Tried::Admitted
            }
            Decision::Admit { .. } => Tried::Lost,
        }
    }

    /// What the terms say to the packet. The clock is read only where its bounds leave that open, and before
    /// anything is charged: a tick may come late, and then the upper bound is too low. A packet may be refused
    /// because of that, but none may pass.
    #[inline(always)]
    fn decide(&mut self, word: u64, charging: bool) -> Decision {
        if *self.now == NOT_READ
            && let Some(between) = clock::between()
        {
            let Between { earliest, latest } = between;
            let decided = self
                .terms()
                .decide_between(word, earliest, latest, self.cost);
            match decided {
                Some(Decision::Admit { .. }) if charging => {}
                Some(decision) => return decision,
                None => {}
            }
        }
        let now = self.now();
        self.terms().decide(word, now, self.cost)
    }

    /// When the packet came.
    #[inline(always)]
    fn now(&mut self) -> u64 {
        if *self.now == NOT_READ {
            *self.now = clock::now();
        }
        *self.now
    }

    /// Whether the word is further ahead than any packet could have brought it. Where the bounds of the time
    /// were enough, it is not.
    #[inline(always)]
    fn is_too_far_ahead(&self, word: u64) -> bool {
        *self.now != NOT_READ && self.terms().corrected(word, *self.now).is_some()
    }

    /// The bucket's word.
    #[inline(always)]
    fn word(&self, entry: Entry) -> Word {
        let epoch = self.limit.epoch();
        // Before the word and after it: another program, which is about to take the place of this one or has
        // done so, may convert it meanwhile.
        let before = epoch_in(entry.load(OVER), epoch);
        let word = entry.tat();
        let after = epoch_in(entry.load(OVER), epoch);
        if !bucket::is_time(word) {
            Word::Busy
        } else if before == epoch && after == epoch {
            Word::Present(word)
        } else {
            Word::Stale
        }
    }
}

/// What stands in a bucket.
enum Word {
    /// Its word, on the present terms.
    Present(u64),
    /// Another CPU is at work on it, or it has been forgotten.
    Busy,
    /// It stands on past terms.
    Stale,
}

/// Brings the bucket of `key`, of the limit with this index, from past terms to the present ones; and puts a
/// word right that a clock which was set back has left too far ahead, so that no source is locked out.
/// Whoever comes first does it.
#[inline(always)]
pub fn refresh(key: &Tag, index: u32) {
    bucket_refresh(key, index);
}

/// Always 0. A function of its own, because it is seldom needed: the stack has no room to have it everywhere (a
/// global function, Linux 5.6; pointers to memory, 5.12).
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn bucket_refresh(key: *const Tag, index: u32) -> u32 {
    // SAFETY: the caller's own, which the verifier has checked; it wants to see null checked.
    let key = unsafe { key.as_ref() };
    if let (Some(key), Some(limit)) = (key, config::limit(index))
        && let Some(entry) = table::find(key)
    {
        let (over, word) = (entry.load(OVER), entry.tat());
        let epoch = epoch_in(over, limit.epoch());
        if !bucket::is_time(word) {
            return 0;
        }
        if epoch != limit.epoch() {
            // Nothing where it is later than this program, which is at its last packets.
            if let Some(converted) = terms::on_present(index, epoch, word) {
                entry.convert(key, over, word, converted, limit.epoch());
            }
        } else if let Some(corrected) = limit.terms().corrected(word, clock::now()) {
            // The clock is read after the word: this CPU may have been stopped (a virtual one is, for
            // milliseconds) between its last reading and the bucket, which others went on charging.
            entry.charge(key, word, corrected);
        }
    }
    0
}
