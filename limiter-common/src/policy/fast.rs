//! The fast path: one limit that matches every IP packet, and no lists.

use super::{
    Environment, Found, Parsed, Steps, apply_shadow,
    attempt::{Attempt, Attempts, settle},
    bucket::{Demand, NOT_READ, cost, may_replace},
    unreadable,
};
use crate::{
    abi::rules::{ANSWERS, FIRST, Limit, PROVEN},
    policy::verdict::Reason,
    table::{
        entry::Shared,
        key::{Address, SourceKey},
    },
};

/// The source of a packet, or the reason why no limit applies to it.
#[inline(always)]
pub fn source<E: Environment>(environment: &E, parsed: Parsed) -> Result<Address, Reason> {
    match parsed {
        Parsed::Ipv4(source) | Parsed::Ipv6(source) => Ok(source),
        Parsed::NotIp | Parsed::Arp(_) => Err(Reason::NotIp),
        Parsed::Malformed | Parsed::TooManyTags => {
            Err(apply_shadow(environment, unreadable(environment, parsed)))
        }
    }
}

/// The end of an evaluation, which is compiled for each common reason.
pub trait End {
    /// The result of the evaluation.
    type Output;
    /// Takes the final reason and the limit's reason, `why`.
    fn end(self, reason: Reason, why: Reason) -> Self::Output;
}

/// Both reasons: the final one and the limit's.
pub struct Pair;

impl End for Pair {
    type Output = (Reason, Reason);

    #[inline(always)]
    fn end(self, reason: Reason, why: Reason) -> Self::Output {
        (reason, why)
    }
}

/// Decides about a packet of `length` bytes and counts it for its source. Returns the result of `end` for the reasons.
/// `is_connected` looks the packet up among the host's sockets. `prove` lets a new source that is refused prove its
/// address: [`PROVEN`]; [`ANSWERS`] if it gets an answer to its SYN; otherwise [`FIRST`].
#[inline(always)]
pub fn evaluate<S: Steps, F: End>(
    environment: &S,
    source: &Address,
    length: u64,
    is_connected: impl FnOnce() -> bool,
    prove: impl Fn() -> u32,
    end: F,
) -> F::Output {
    let Some(limit) = environment.constants().limit(0) else {
        return end.end(Reason::Unlimited, Reason::Unlimited);
    };
    if environment.constants().bans != 0 && environment.is_banned(source, length) {
        return end.end(apply_shadow(environment, Reason::Ban), Reason::Ban);
    }
    if environment.constants().established != 0 && is_connected() {
        return end.end(Reason::Established, Reason::Established);
    }
    let key = limit.mask.key(0, source, 0, &environment.constants().nat64);
    // Only the first attempt is inlined: the verifier would follow each attempt.
    let mut demand = demand::<_, true>(environment, limit, &key, length);
    let first = demand.charge();
    // The common results by themselves, so that the compiler knows their reasons from here on.
    match first {
        Attempt::Refused => return count(environment, Reason::Limit, demand.found, length, end),
        Attempt::Admitted => {
            return count(environment, Reason::Admitted, demand.found, length, end);
        }
        _ => {}
    }
    let mut charge = Charge {
        environment,
        key: &key,
        length,
        prove,
        entry: demand.found,
        budget: FIRST,
        why_new: Reason::NewSource,
    };
    let (why, entry) = charge.settle(first);
    count(environment, why, entry, length, end)
}

/// Counts a packet for its source, and ends.
#[inline(always)]
fn count<S: Steps, F: End>(
    environment: &S,
    why: Reason,
    entry: S::Found,
    length: u64,
    end: F,
) -> F::Output {
    let reason = apply_shadow(environment, why);
    if let Some(entry) = entry.entry() {
        entry.count(reason, length);
    }
    end.end(reason, why)
}

/// The charge of a packet to its source's bucket.
struct Charge<'a, S: Steps, P> {
    environment: &'a S,
    key: &'a SourceKey,
    length: u64,
    prove: P,
    /// The entry that counts the packet; none if the source has none, or the packet is already counted.
    entry: S::Found,
    /// The budget of the source, if it is new.
    budget: u32,
    /// The reason why the source is refused, if it is new.
    why_new: Reason,
}

impl<S: Steps, P: Fn() -> u32> Charge<'_, S, P> {
    /// Finishes the charge after its first attempt. Returns the limit's reason, and the entry that counts the packet.
    #[inline(always)]
    fn settle(&mut self, first: Attempt) -> (Reason, S::Found) {
        match settle::<S>(self, first) {
            Attempt::Admitted => (Reason::Admitted, self.entry),
            Attempt::Refused => (Reason::Limit, self.entry),
            Attempt::RefusedNew => (self.why_new, S::Found::NONE),
            _ => (Reason::Contended, S::Found::NONE),
        }
    }
}

impl<S: Steps, P: Fn() -> u32> Attempts for Charge<'_, S, P> {
    #[inline(always)]
    fn charge(&mut self) -> Attempt {
        let tried = self.environment.charge_again(self.key, self.length);
        let number = self.environment.entry_number(self.key);
        let entry = self.environment.entry(number);
        self.entry = entry.map_or(S::Found::NONE, S::Found::from);
        tried
    }

    #[inline(always)]
    fn refresh(&mut self) {
        self.environment.refresh_bucket(self.key, 0);
    }

    #[inline(always)]
    fn add(&mut self) -> Attempt {
        self.entry = S::Found::NONE;
        self.environment
            .add_source(self.key, self.length, self.budget)
    }

    #[inline(always)]
    fn replace(&mut self, budget: u32) -> Attempt {
        // Once more, so that programs without the call do not have the function.
        if !may_replace(self.environment) {
            return Attempt::RefusedNew;
        }
        self.environment
            .replace_source(self.key, self.length, budget)
    }

    #[inline(always)]
    fn proves(&mut self) -> bool {
        if self.environment.constants().proof == 0 || self.budget == PROVEN {
            return false;
        }
        match (self.prove)() {
            PROVEN => self.budget = PROVEN,
            ANSWERS => self.why_new = Reason::Answered,
            _ => {}
        }
        self.budget == PROVEN
    }
}

#[inline(always)]
fn demand<'a, E: Environment, const INLINE: bool>(
    environment: &'a E,
    limit: &'a Limit,
    key: &'a SourceKey,
    length: u64,
) -> Demand<'a, E, INLINE> {
    let cost = cost(environment, limit, length);
    Demand::new(environment, limit, key, NOT_READ, cost, 0)
}

/// Tries again to charge the bucket of `key`.
#[inline(always)]
pub fn charge_again<E: Environment>(environment: &E, key: &SourceKey, length: u64) -> Attempt {
    let Some(limit) = environment.constants().limit(0) else {
        return Attempt::Lost;
    };
    demand::<_, false>(environment, limit, key, length).charge()
}

/// Makes the bucket of `key` and charges it.
#[inline(always)]
pub fn add<E: Environment>(environment: &E, key: &SourceKey, length: u64, budget: u32) -> Attempt {
    let Some(limit) = environment.constants().limit(0) else {
        return Attempt::Lost;
    };
    let mut demand = demand::<_, false>(environment, limit, key, length);
    demand.budget = budget;
    demand.charge_new(true)
}

/// Makes the bucket of `key` in the place of a quiet source, after [`add`].
#[inline(always)]
pub fn replace<E: Environment>(
    environment: &E,
    key: &SourceKey,
    length: u64,
    budget: u32,
) -> Attempt {
    let Some(limit) = environment.constants().limit(0) else {
        return Attempt::Lost;
    };
    let mut demand = demand::<_, false>(environment, limit, key, length);
    demand.budget = budget;
    demand.replace()
}
