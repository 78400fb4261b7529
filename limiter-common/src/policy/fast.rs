//! The fast path: one limit that matches every IP packet, and no lists.

use super::{
    Engine, Found, Parsed, apply_shadow,
    bucket::{
        self, ATTEMPTS, Charged, DONE, Demand, LOST, NEW, NOT_READ, REFUSED, STALE, may_replace,
    },
    full,
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
pub fn source<E: Engine>(engine: &E, parsed: Parsed) -> Result<Address, Reason> {
    match parsed {
        Parsed::Ipv4(source) | Parsed::Ipv6(source) => Ok(source),
        Parsed::NotIp | Parsed::Arp(_) => Err(Reason::NotIp),
        Parsed::Malformed | Parsed::TooManyTags => {
            Err(apply_shadow(engine, full::unreadable(engine, parsed)))
        }
    }
}

/// Decides about a packet of `length` bytes and counts it for its source. Returns the final reason and the limit's
/// reason. `is_connected` looks the packet up among the host's sockets. `prove`: see [`charge`].
#[inline(always)]
pub fn evaluate<E: Engine>(
    engine: &E,
    source: &Address,
    length: u64,
    is_connected: impl FnOnce() -> bool,
    prove: impl Fn() -> u32,
) -> (Reason, Reason) {
    let Some(limit) = engine.config().limit(0) else {
        return (Reason::Unlimited, Reason::Unlimited);
    };
    if engine.config().bans != 0 && engine.is_banned(source, length) {
        return (apply_shadow(engine, Reason::Ban), Reason::Ban);
    }
    if engine.config().established != 0 && is_connected() {
        return (Reason::Established, Reason::Established);
    }
    let key = limit.mask.key(0, source, 0);
    let (why, entry) = charge(engine, limit, &key, length, prove);
    let reason = apply_shadow(engine, why);
    if let Some(entry) = entry.entry() {
        entry.count(reason, length);
    }
    (reason, why)
}

/// Charges the bucket of `key` for a packet of `length` bytes. Makes the bucket if there is none. Only the first
/// attempt is inlined: the verifier would follow each attempt. `prove` lets a new source that is refused prove its address:
/// [`PROVEN`]; [`ANSWERS`] if it gets an answer to its SYN; otherwise [`FIRST`].
#[inline(always)]
pub fn charge<E: Engine>(
    engine: &E,
    limit: &Limit,
    key: &SourceKey,
    length: u64,
    prove: impl Fn() -> u32,
) -> Charged<E::Found> {
    let mut budget = FIRST;
    let mut demand = demand::<_, true>(engine, limit, key, length);
    let mut tried = demand.charge();
    let mut entry = demand.found;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tried = engine.charge_again(key, length);
            let again = engine.entry(engine.entry_number(key));
            entry = again.map_or(E::Found::NONE, E::Found::from);
        }
        let reason = match tried {
            DONE => Reason::Admitted,
            REFUSED => Reason::Limit,
            NEW => {
                let mut added = engine.add_source(key, length, budget);
                if may_replace(engine) && added & !3 == FULL {
                    added = engine.replace_source(key, length, added & 3);
                }
                if added == RACED {
                    continue;
                }
                if engine.config().proof != 0 && added == NEW_SOURCE && budget == FIRST {
                    budget = prove();
                    match budget {
                        PROVEN => continue,
                        ANSWERS => added = Reason::Answered as u32,
                        _ => {}
                    }
                }
                return (bucket::reason(added), E::Found::NONE);
            }
            STALE => {
                engine.refresh_bucket(key, 0);
                continue;
            }
            _ => continue,
        };
        return (reason, entry);
    }
    (Reason::Contended, E::Found::NONE)
}

/// The cost of a packet of this [`crate::arithmetic::size`].
#[inline(always)]
pub(super) fn cost<E: Engine>(limit: &Limit, size: u64) -> u64 {
    if E::IN_STACK {
        limit.quota.cost_of(size)
    } else {
        limit.quota.cost_of_one(size)
    }
}

#[inline(always)]
fn demand<'a, E: Engine, const INLINE: bool>(
    engine: &'a E,
    limit: &'a Limit,
    key: &'a SourceKey,
    length: u64,
) -> Demand<'a, E, INLINE> {
    let cost = cost::<E>(limit, length);
    Demand::new(engine, limit, key, NOT_READ, cost, 0)
}

/// Tries again to charge the bucket of `key`. Returns a code of [`bucket`].
#[inline(always)]
pub fn charge_again<E: Engine>(engine: &E, key: &SourceKey, length: u64) -> u32 {
    let Some(limit) = engine.config().limit(0) else {
        return LOST;
    };
    demand::<_, false>(engine, limit, key, length).charge()
}

/// Returned by [`add`] if another CPU has made the bucket.
const RACED: u32 = u32::MAX;
/// Returned by [`add`], plus the budget, if the source has found no room, so that the caller must call [`replace`].
const FULL: u32 = u32::MAX - 7;
const NEW_SOURCE: u32 = Reason::NewSource as u32;

/// Makes the bucket of `key` and charges it. Returns the number of the reason, `RACED`, or `FULL`.
#[inline(always)]
pub fn add<E: Engine>(engine: &E, key: &SourceKey, length: u64, budget: u32) -> u32 {
    let Some(limit) = engine.config().limit(0) else {
        return Reason::Contended as u32;
    };
    let mut demand = demand::<_, false>(engine, limit, key, length);
    demand.budget = budget;
    let added = demand.charge_new(true);
    if demand.found_no_room && may_replace(engine) {
        return FULL + demand.budget;
    }
    added.map_or(RACED, |reason| reason as u32)
}

/// Makes the bucket of `key` in the place of a quiet source, after [`add`]. Returns the number of the reason, or `RACED`.
#[inline(always)]
pub fn replace<E: Engine>(engine: &E, key: &SourceKey, length: u64, budget: u32) -> u32 {
    let Some(limit) = engine.config().limit(0) else {
        return Reason::Contended as u32;
    };
    let mut demand = demand::<_, false>(engine, limit, key, length);
    demand.budget = budget;
    demand.replace().map_or(RACED, |reason| reason as u32)
}
