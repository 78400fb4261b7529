//! The full path: lists, then all limits that match. A packet is charged to all of them or to none: each limit is checked
//! first and charged then, and charges are refunded where a later limit refuses after all.

use super::{
    Bytes, Engine, Evaluation, Found, Limit, Parsed, apply_shadow,
    bucket::{self, Charged, Demand, NOT_READ, Tried},
    matches, parse,
};
use crate::{
    abi::rules::{LIMITS_MAX, ON_ALLOW, ON_DENY},
    policy::{candidates::lowest, verdict::Reason},
    table::{entry::Protocol, key::Tag},
};

/// Argument of a lookup among the host's sockets: every segment of TCP.
pub const ANY_SEGMENT: u32 = 0;
/// Argument of a lookup among the host's sockets: no SYN without ACK.
pub const NOT_OPENING: u32 = 1;

/// Calls a step for each limit whose bit is set, until one returns something else than 0. A macro, because the compiler
/// would make a function with a stack of its own.
macro_rules! any {
    ($engine:expr, $evaluation:expr, $bits:ident, $step:expr) => {{
        let mut answered = false;
        for index in 0..LIMITS_MAX {
            if index >= $engine.limits_length() {
                break;
            }
            if $evaluation.$bits >> index & 1 != 0 && $step($engine, $evaluation, index) != 0 {
                answered = true;
                break;
            }
        }
        answered
    }};
}

/// Reads a packet from its Ethernet header on, or says why no limit matches it. `begin` is called for packets that limits
/// may match.
#[inline(always)]
pub fn read<E: Engine, B: Bytes + Copy>(
    engine: &E,
    packet: &mut B,
    evaluation: &mut Evaluation,
    begin: impl FnOnce(),
) -> Result<(), Reason> {
    let parsed = parse(packet);
    match parsed {
        Parsed::Ipv4(_) | Parsed::Ipv6(_) => {}
        Parsed::Arp(_) if engine.control() => {}
        Parsed::NotIp | Parsed::Arp(_) => return Err(Reason::NotIp),
        Parsed::Malformed | Parsed::TooManyTags => return Err(unreadable(engine, parsed)),
    }
    begin();
    parsed.read(packet, engine.transport(), &mut evaluation.info);
    if !engine.control() {
        evaluation.info.control = 0;
    }
    Ok(())
}

/// The reason for a packet whose source cannot be read. One with too many VLAN tags never passes: the host may
/// deliver it, past every limit and list.
#[inline(always)]
pub fn unreadable<E: Engine>(engine: &E, parsed: Parsed) -> Reason {
    match parsed {
        Parsed::Malformed if engine.malformed_passes() => Reason::MalformedPassed,
        _ => Reason::Malformed,
    }
}

/// Decides about a packet that was read. `has_connection` looks it up among the host's sockets.
#[inline(always)]
pub fn evaluate<E: Engine>(
    engine: &E,
    evaluation: &mut Evaluation,
    has_connection: impl Fn(u32) -> bool,
) -> Reason {
    if evaluation.info.control == 0 {
        evaluation.lists = engine.lists(evaluation);
        if evaluation.lists & ON_DENY != 0 {
            return apply_shadow(engine, Reason::Deny);
        }
        if evaluation.lists & ON_ALLOW != 0 {
            return Reason::Allowed;
        }
    }
    find_matching(engine, evaluation);
    let decided = decide(engine, evaluation, &has_connection);
    let reason = unless_established(engine, decided, has_connection);
    if !decided.passes() && !matches!(reason, Reason::Established) && evaluation.counted == 0 {
        evaluation.passed = reason.passes().into();
        engine.count_over(evaluation, evaluation.refused_by);
    }
    reason
}

/// The limits' decision, unless the packet belongs to an established connection and such packets are exempt.
#[inline(always)]
pub fn unless_established<E: Engine>(
    engine: &E,
    decided: Reason,
    has_connection: impl Fn(u32) -> bool,
) -> Reason {
    if !decided.passes() && engine.established() && has_connection(ANY_SEGMENT) {
        return Reason::Established;
    }
    apply_shadow(engine, decided)
}

#[inline(always)]
fn find_matching<E: Engine>(engine: &E, evaluation: &mut Evaluation) {
    evaluation.matching = engine.candidates(evaluation);
    if evaluation.matching & engine.uncertain() != 0 {
        any!(engine, evaluation, matching, confirm_if_uncertain);
    }
}

#[inline(always)]
fn confirm_if_uncertain<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    if engine.uncertain() >> index & 1 != 0 {
        engine.confirm(evaluation, index);
    }
    0
}

/// What the limits that match decide. A packet of an exempt connection is charged to none.
#[inline(always)]
fn decide<E: Engine>(
    engine: &E,
    evaluation: &mut Evaluation,
    has_connection: impl Fn(u32) -> bool,
) -> Reason {
    if evaluation.matching == 0 {
        return Reason::Unlimited;
    }
    let several = evaluation.matching & (evaluation.matching - 1) != 0;
    let refused = if several || engine.established() {
        evaluation.checked = 1;
        let refused = any!(engine, evaluation, matching, check_fresh);
        if !refused && engine.established() && has_connection(NOT_OPENING) {
            return Reason::Established;
        }
        refused
            || lacks_buckets(engine, evaluation)
            || any!(engine, evaluation, matching, charge_or_add)
    } else {
        let index = lowest(evaluation.matching);
        charge_or_add(engine, evaluation, index) != 0
    };
    if !refused {
        if evaluation.would_drop == 0 {
            return Reason::Admitted;
        }
        // Now that no other limit refuses it: for none of those in shadow it has passed otherwise.
        evaluation.passed = 1;
        any!(engine, evaluation, would_drop, E::count_over);
        return Reason::WouldDrop;
    }
    if evaluation.charged != 0 {
        any!(engine, evaluation, charged, E::refund);
    }
    // It is that one's doing alone.
    evaluation.would_drop = 0;
    bucket::reason(evaluation.refused)
}

/// Whether there is no leave for all the buckets that are to be made for the packet: then none is. Otherwise the
/// first one would take what there is for new sources, and few packets would ever get their last. After it
/// the clock has been read, unless there is no leave.
#[inline(always)]
fn lacks_buckets<E: Engine>(engine: &E, evaluation: &mut Evaluation) -> bool {
    if evaluation.refused == NEW_SOURCE && any!(engine, evaluation, new, E::reserve) {
        return true;
    }
    // Before the first charge at the latest: a refund that takes a charge to be later than it was gives back what
    // the bucket would have refilled without it.
    if evaluation.now == NOT_READ {
        evaluation.now = engine.now();
    }
    false
}

/// Losing the race to make a bucket this often means that it is made and forgotten as often.
const ATTEMPTS: u32 = 4;

/// Charges the packet to one limit; a bucket that does not exist is made. Two steps, because the stack of the program in the
/// kernel has no room for one.
#[inline(always)]
fn charge_or_add<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    for _ in 0..ATTEMPTS {
        let charged = engine.charge(evaluation, index);
        if charged == STALE {
            engine.refresh(evaluation, index);
            continue;
        }
        if charged != NEW {
            return charged;
        }
        let added = engine.add(evaluation, index);
        if added != NEW {
            return added;
        }
    }
    engine.contended(evaluation, index)
}

/// Checks one limit.
#[inline(always)]
fn check_fresh<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    // Twice: a bucket may be on past quota, and be too far ahead as well.
    for _ in 0..2 {
        let checked = engine.check(evaluation, index);
        if checked != STALE {
            return checked;
        }
        engine.refresh(evaluation, index);
    }
    // Where it still is, charging decides.
    (engine.check(evaluation, index) == 1).into()
}

/// Returned by [`charge`] if there is no bucket yet, and by [`add`] if there is one after all.
const NEW: u32 = 2;
/// Returned if the bucket is to be refreshed first.
const STALE: u32 = 3;

const NEW_SOURCE: u32 = Reason::NewSource as u32;

#[inline(always)]
fn tag<L: Limit>(evaluation: &Evaluation, limit: L) -> Tag {
    let info = &evaluation.info;
    let key = limit
        .mask()
        .key(limit.slot(), &info.source, info.key_port());
    key.tag()
}

/// The limit, if `bits` has it.
#[inline(always)]
fn of<E: Engine>(engine: &E, bits: u64, index: u32) -> Option<E::Limit> {
    if bits >> index & 1 == 0 {
        return None;
    }
    engine.limit(index)
}

/// Removes the limit from those that match the packet, if it does not. Always 0.
#[inline(always)]
pub fn confirm<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    if let Some(limit) = of(engine, evaluation.matching, index)
        && !matches(limit.matches(), &evaluation.info, evaluation.lists)
    {
        evaluation.matching &= !(1 << index);
    }
    0
}

/// Returns 1 if the limit refuses the packet as things are, or [`STALE`]. Charges nothing, and remembers where the bucket
/// is.
#[inline(always)]
pub fn check<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    let Some(limit) = of(engine, evaluation.matching, index) else {
        return 0;
    };
    let tag = tag(evaluation, limit);
    let (now, length) = (&mut evaluation.now, evaluation.length);
    let mut demand = Demand::<_, false>::new(engine, limit, &tag, now, length, 0);
    let checked = demand.check();
    let (place, found) = (demand.place, demand.found);
    if let Some(remembered) = evaluation.places.get_mut(index as usize) {
        *remembered = place;
    }
    match checked {
        Tried::Stale => STALE,
        Tried::Refused if !limit.shadow() => {
            let charged = Charged {
                reason: Reason::Limit,
                entry: found,
            };
            refuse(engine, evaluation, index, limit, charged)
        }
        Tried::New => {
            evaluation.new |= 1 << index;
            // Should there be no leave to make it, the first such limit is the one that refuses the packet.
            if !limit.shadow() && evaluation.refused != NEW_SOURCE {
                evaluation.refused_by = index;
                evaluation.refused = NEW_SOURCE;
            }
            0
        }
        Tried::Refused | Tried::Admitted | Tried::Lost => 0,
    }
}

/// Returns 1 if the limit has no leave to make a bucket for the packet, or no room for it. A token that it has leave for
/// stays in the lease until the packet is charged.
#[inline(always)]
pub fn reserve<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    let Some(limit) = of(engine, evaluation.new, index) else {
        return 0;
    };
    if !engine.is_out(limit.slot()) {
        if evaluation.now == NOT_READ {
            evaluation.now = engine.now();
        }
        if engine.admits(&tag(evaluation, limit), evaluation.now, false) {
            return 0;
        }
    }
    if !limit.shadow() {
        evaluation.refused_by = index;
    }
    1
}

/// Charges the packet to the limit. Returns 1 if that refuses it, [`NEW`] if there is no bucket yet, or [`STALE`].
#[inline(always)]
pub fn charge<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    let Some(limit) = of(engine, evaluation.matching, index) else {
        return 0;
    };
    let tag = tag(evaluation, limit);
    let place = evaluation.place(index);
    let (now, length) = (&mut evaluation.now, evaluation.length);
    let mut demand = Demand::<_, true>::new(engine, limit, &tag, now, length, place);
    let mut reason = Reason::Contended;
    for _ in 0..bucket::ATTEMPTS {
        match demand.charge() {
            Tried::Admitted => reason = Reason::Admitted,
            Tried::Refused => reason = Reason::Limit,
            Tried::New => return NEW,
            Tried::Stale => return STALE,
            Tried::Lost => continue,
        }
        break;
    }
    let entry = demand.found;
    take(engine, evaluation, index, limit, Charged { reason, entry })
}

/// [`bucket::refresh`] for the limit's bucket. Always 0.
#[inline(always)]
pub fn refresh<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    if let Some(limit) = of(engine, evaluation.matching, index) {
        engine.refresh_bucket(&tag(evaluation, limit), index);
    }
    0
}

/// Makes the bucket, and charges it. Returns what [`charge`] does. The first bucket that is made for the packet takes
/// the token of the new-source limit.
#[inline(always)]
pub fn add<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    let Some(limit) = of(engine, evaluation.matching, index) else {
        return 0;
    };
    let tag = tag(evaluation, limit);
    let pay = evaluation.paid == 0;
    let (now, length) = (&mut evaluation.now, evaluation.length);
    match Demand::<_, false>::new(engine, limit, &tag, now, length, 0).charge_new(pay) {
        Some(reason) => {
            evaluation.paid |= u32::from(matches!(reason, Reason::Admitted));
            take(engine, evaluation, index, limit, Charged::nowhere(reason))
        }
        None => NEW,
    }
}

/// The race was lost for good. Returns 1, unless the limit is in shadow.
#[inline(always)]
pub fn contended<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    let Some(limit) = of(engine, evaluation.matching, index) else {
        return 0;
    };
    take(
        engine,
        evaluation,
        index,
        limit,
        Charged::nowhere(Reason::Contended),
    )
}

/// Notes what the limit has decided, and counts a packet that it admits. Returns 1 if it refuses the packet.
#[inline(always)]
fn take<E: Engine>(
    engine: &E,
    evaluation: &mut Evaluation,
    index: u32,
    limit: E::Limit,
    charged: Charged<E::Found>,
) -> u32 {
    if !matches!(charged.reason, Reason::Admitted) {
        if !limit.shadow() {
            return refuse(engine, evaluation, index, limit, charged);
        }
        if evaluation.would_drop == 0 {
            note(evaluation, index, charged.reason);
        }
        evaluation.would_drop |= 1 << index;
        return 0;
    }
    evaluation.charged |= 1 << index;
    if let Some(entry) = charged.entry.entry() {
        entry.count(Reason::Admitted);
    }
    engine.count_limit(limit.slot(), Reason::Admitted, evaluation.length);
    0
}

/// Refunds what [`charge`] or [`add`] has charged and counted. Always 0.
#[inline(always)]
pub fn refund<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    let Some(limit) = of(engine, evaluation.charged, index) else {
        return 0;
    };
    let tag = tag(evaluation, limit);
    let place = evaluation.place(index);
    let (now, length) = (&mut evaluation.now, evaluation.length);
    let mut demand = Demand::<_, false>::new(engine, limit, &tag, now, length, place);
    demand.refund();
    if let Some(entry) = demand.found.entry() {
        entry.uncount();
    }
    engine.uncount_limit(limit.slot(), evaluation.length);
    0
}

/// Counts the packet for a limit that it is over: as dropped, or as passed because of shadow. Always 0.
#[inline(always)]
pub fn count_over<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    let Some(limit) = engine.limit(index) else {
        return 0;
    };
    let reason = if evaluation.passed != 0 {
        Reason::WouldDrop
    } else {
        Reason::Limit
    };
    let tag = tag(evaluation, limit);
    let place = evaluation.place(index);
    let (now, length) = (&mut evaluation.now, evaluation.length);
    if let Some(entry) = Demand::<_, false>::new(engine, limit, &tag, now, length, place).find() {
        entry.count(reason);
    }
    engine.count_limit(limit.slot(), reason, evaluation.length);
    0
}

/// Notes what a limit that the packet is over has decided.
#[inline(always)]
fn note(evaluation: &mut Evaluation, index: u32, reason: Reason) {
    evaluation.refused_by = index;
    evaluation.refused = reason as u32;
}

/// Notes that the limit refuses the packet, and counts it, if nothing can let it pass any more. Always 1.
#[inline(always)]
fn refuse<E: Engine>(
    engine: &E,
    evaluation: &mut Evaluation,
    index: u32,
    limit: E::Limit,
    charged: Charged<E::Found>,
) -> u32 {
    note(evaluation, index, charged.reason);
    if !engine.established()
        && let Some(entry) = charged.entry.entry()
    {
        let reason = apply_shadow(engine, Reason::Limit);
        entry.count(reason);
        engine.count_limit(limit.slot(), reason, evaluation.length);
        evaluation.counted = 1;
    }
    1
}
