//! The full path: lists, then all limits that match. A packet is charged to all of them or to none: each limit is
//! checked first and charged then, and charges are refunded if a later limit refuses after all.

use super::{
    Bytes, Engine, Evaluation, Parsed, apply_shadow,
    bucket::{self, ATTEMPTS, NOT_READ},
    parse,
    step::{LOST, NEW, REFUSED, STALE},
};
use crate::{
    abi::rules::{LIMITS_MAX, ON_ALLOW, ON_DENY},
    policy::{candidates::lowest, verdict::Reason},
};

/// Argument of a lookup among the host's sockets: every segment of TCP.
pub const ANY_SEGMENT: u32 = 0;
/// Argument of a lookup among the host's sockets: no SYN without ACK.
pub const NOT_OPENING: u32 = 1;

/// Calls a step for each limit with its bit set, until one does not return 0. A macro, because the compiler
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

/// Reads a packet from its Ethernet header on, or says why no limit matches it. `begin` is called for packets that
/// limits may match.
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

/// The reason for a packet with an unreadable source. One with too many VLAN tags never passes: the host may
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

/// Decision of the limits that match. A packet of an exempt connection is charged to none.
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
        // No other limit refuses the packet now: the limits in shadow count that it has passed.
        evaluation.passed = 1;
        any!(engine, evaluation, would_drop, E::count_over);
        return Reason::WouldDrop;
    }
    if evaluation.charged != 0 {
        any!(engine, evaluation, charged, refund);
    }
    // Only the limit that refuses the packet is reported.
    evaluation.would_drop = 0;
    bucket::reason(evaluation.refused)
}

/// Whether one of the buckets to be made for the packet has no leave: then none is made. Otherwise the first bucket
/// would take the tokens for new sources, and few packets would ever get their last bucket. After this call the clock
/// has been read, unless there is no leave.
#[inline(always)]
fn lacks_buckets<E: Engine>(engine: &E, evaluation: &mut Evaluation) -> bool {
    if evaluation.refused == Reason::NewSource as u32 && any!(engine, evaluation, new, E::reserve) {
        return true;
    }
    // Before the first charge at the latest: a refund that takes a charge to be later than it was gives back what
    // the bucket would have refilled without it.
    if evaluation.now == NOT_READ {
        evaluation.now = engine.now();
    }
    false
}

/// Charges the packet to one limit; a bucket that does not exist is made.
#[inline(always)]
fn charge_or_add<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    for _ in 0..ATTEMPTS {
        match engine.charge(evaluation, index) {
            NEW => match engine.add(evaluation, index) {
                LOST => {}
                added => return added,
            },
            STALE => {
                engine.refresh(evaluation, index);
            }
            LOST => {}
            charged => return charged,
        }
    }
    engine.contended(evaluation, index)
}

/// Checks one limit.
#[inline(always)]
fn check_fresh<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    // Twice: a bucket may be on an earlier quota, and be too far ahead as well.
    for _ in 0..2 {
        let checked = engine.check(evaluation, index);
        if checked != STALE {
            return checked;
        }
        engine.refresh(evaluation, index);
    }
    // A bucket that is stale once more is charged first, which decides.
    (engine.check(evaluation, index) == REFUSED).into()
}

/// Refunds one limit.
#[inline(always)]
fn refund<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    for _ in 0..ATTEMPTS {
        if engine.refund(evaluation, index) != LOST {
            break;
        }
    }
    engine.uncount(evaluation, index)
}
