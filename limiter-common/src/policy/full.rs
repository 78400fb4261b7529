//! The full path: lists, then all limits that match. A packet is charged to all of them or to none: all limits are
//! checked, then charged, and charges are refunded if a later limit refuses.

use core::hint::black_box;

use super::{
    Bytes, Engine, Evaluation, Parsed, apply_shadow,
    bucket::{self, ATTEMPTS, DONE, FULL, LOST, NEW, NOT_READ, REFUSED, STALE},
    matches::payload_holds,
    of_lists, parse, payload,
    step::Step,
};
use crate::{
    abi::rules::{
        ANSWERS, ANY, FIRST, LIMITS_MAX, NEEDS_CONNECTION, NEEDS_DESTINATION_LISTS, NEEDS_HOLD,
        NEEDS_PAIR, NEEDS_PAYLOAD, NEEDS_PAYLOAD_LENGTH, NEEDS_SOURCE_LISTS, ON_ALLOW, ON_DENY,
        PROVEN,
    },
    policy::{candidates::lowest, verdict::Reason},
};

/// Calls a step for each limit with its bit set, until one does not return 0. A macro, because the compiler would make
/// a function with a stack frame of its own.
macro_rules! any {
    ($engine:expr, $evaluation:expr, $bits:ident, $step:expr) => {{
        let mut answered = false;
        for index in 0..LIMITS_MAX {
            if index >= $engine.config().limits_length {
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

/// Reads a packet from its Ethernet header on, or returns the reason why no limit applies to it. Calls `begin` for
/// packets that limits may match.
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
        Parsed::Arp(_) if engine.config().control != 0 => {}
        Parsed::NotIp | Parsed::Arp(_) => return Err(Reason::NotIp),
        Parsed::Malformed | Parsed::TooManyTags => return Err(unreadable(engine, parsed)),
    }
    begin();
    let needs = engine.config().needs;
    let from = packet.remaining();
    parsed.read(packet, needs, &mut evaluation.info);
    if needs & (NEEDS_PAYLOAD | NEEDS_PAYLOAD_LENGTH) != 0 {
        #[expect(clippy::cast_possible_truncation, reason = "bytes of headers")]
        let header = from.wrapping_sub(packet.remaining()) as u32;
        if needs & NEEDS_PAYLOAD_LENGTH != 0 {
            evaluation.payload_length = payload::length(packet, &evaluation.info, header);
        }
        if needs & NEEDS_PAYLOAD != 0 {
            evaluation.payload.read(packet, &evaluation.info, header);
        }
    }
    if engine.config().control == 0 {
        evaluation.info.control = 0;
    }
    Ok(())
}

/// The reason for a packet with an unreadable source. A packet with too many VLAN tags never passes, because the host
/// might deliver it without any limit.
#[inline(always)]
pub fn unreadable<E: Engine>(engine: &E, parsed: Parsed) -> Reason {
    match parsed {
        Parsed::Malformed if engine.config().malformed_passes != 0 => Reason::MalformedPassed,
        _ => Reason::Malformed,
    }
}

/// Decides about a packet after [`read`]. `is_connected` looks it up among the host's sockets. `prove`: see
/// [`super::fast::charge`].
#[inline(always)]
pub fn evaluate<E: Engine>(
    engine: &E,
    evaluation: &mut Evaluation,
    is_connected: impl FnOnce(&Evaluation) -> bool,
    prove: impl Fn(&Evaluation) -> u32,
) -> Reason {
    if evaluation.info.control == 0 {
        evaluation.lists = engine.lists(evaluation);
        if let Some(reason) = of_lists(evaluation.lists) {
            return apply_shadow(engine, reason);
        }
        // Allow, deny and bans are about the peer, and matches about the source.
        if engine.config().needs & NEEDS_SOURCE_LISTS != 0 {
            evaluation.lists = engine.lists_of(&evaluation.info.source) & !(ON_ALLOW | ON_DENY);
        }
    }
    if engine.config().needs & NEEDS_DESTINATION_LISTS != 0 {
        evaluation.destination_lists = engine.lists_of(&evaluation.info.destination);
    }
    find_matching(engine, evaluation);
    let decided = decide(engine, evaluation, is_connected, &prove);
    let reason = apply_shadow(engine, decided);
    if !decided.passes() && evaluation.counted == 0 {
        evaluation.passed = reason.passes().into();
        engine.count_over(evaluation, evaluation.refused_by);
    }
    if engine.config().needs & NEEDS_HOLD != 0 && matches!(reason, Reason::Limit) {
        hold(engine, evaluation);
    }
    reason
}

/// Holds the bucket of the limit that has refused the packet.
#[inline(always)]
fn hold<E: Engine>(engine: &E, evaluation: &mut Evaluation) {
    for _ in 0..ATTEMPTS {
        if engine.hold(evaluation, evaluation.refused_by) != LOST {
            break;
        }
    }
}

#[inline(always)]
fn find_matching<E: Engine>(engine: &E, evaluation: &mut Evaluation) {
    let config = engine.config();
    let candidates = &config.candidates;
    evaluation.matching =
        candidates.of_packet(&evaluation.info, evaluation.lists, config.needs != 0);
    if evaluation.matching & candidates.uncertain(evaluation.lists) != 0 {
        any!(engine, evaluation, matching, confirm_if_uncertain);
    }
    if config.needs & NEEDS_PAIR != 0 {
        any!(engine, evaluation, matching, E::pair);
    }
}

#[inline(always)]
fn confirm_if_uncertain<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    let config = engine.config();
    if config.candidates.uncertain(evaluation.lists) >> index & 1 == 0 {
        return 0;
    }
    // Most limits with a payload end here, which costs less than a call.
    if config.needs & NEEDS_PAYLOAD != 0
        && let Some(limit) = config.limit(index)
        && !payload_holds(limit, evaluation)
    {
        evaluation.matching &= !(1 << index);
        return 0;
    }
    engine.confirm(evaluation, index)
}

/// Leaves the matching limits that apply to a packet of an established connection, or to another packet. Returns whether
/// the packet is exempt from the limits that are left out. Ports that cannot be seen leave all limits.
#[inline(always)]
fn is_exempt<E: Engine>(
    engine: &E,
    evaluation: &mut Evaluation,
    is_connected: impl FnOnce(&Evaluation) -> bool,
) -> bool {
    let config = engine.config();
    let candidates = &config.candidates;
    if config.established == 0 && evaluation.matching & candidates.by_connection() == 0 {
        return false;
    }
    if !evaluation.info.opens_connection() && is_connected(evaluation) {
        // A connection shows that the address is real: a flood of new sources may not use up its tokens.
        evaluation.budget = PROVEN;
        evaluation.matching &= if config.established != 0 {
            candidates.of_connections
        } else {
            !candidates.of_others
        };
        return config.established != 0;
    }
    if candidates.of_connections != 0 && evaluation.info.source_port != ANY {
        evaluation.matching &= !candidates.of_connections;
    }
    false
}

/// Decides by the limits that match. A packet of an exempt connection is charged only to limits on connections.
#[inline(always)]
fn decide<E: Engine>(
    engine: &E,
    evaluation: &mut Evaluation,
    is_connected: impl FnOnce(&Evaluation) -> bool,
    prove: &impl Fn(&Evaluation) -> u32,
) -> Reason {
    if evaluation.matching == 0 {
        return Reason::Unlimited;
    }
    if engine.config().needs & NEEDS_CONNECTION != 0 {
        let is_exempt = is_exempt(engine, evaluation, is_connected);
        if evaluation.matching == 0 {
            return if is_exempt {
                Reason::Established
            } else {
                Reason::Unlimited
            };
        }
    }
    let refused = if evaluation.matching & (evaluation.matching - 1) != 0 {
        evaluation.checked = 1;
        // The checks may decide by these bounds.
        let bounds = engine.time_bounds();
        evaluation.latest = bounds.map_or(u64::MAX, |bounds| bounds.latest);
        any!(engine, evaluation, matching, check_fresh)
            || lacks_buckets(engine, evaluation, prove)
            || any!(engine, evaluation, matching, charge_or_add)
    } else {
        // Hidden from the compiler, which would otherwise leave out bounds checks that the verifier requires. Once more behind
        // a check: if the compiler keeps the index on the stack, Linux 6.1 learns no later bounds.
        let index = black_box(lowest(evaluation.matching));
        if index >= LIMITS_MAX {
            return Reason::Unlimited;
        }
        let index = black_box(index);
        // The first attempt is inlined: it is the only one for most packets.
        let tried = match Step::new(engine, evaluation, index) {
            Some(step) => step.charge(),
            None => DONE,
        };
        finish(engine, evaluation, index, tried, prove) != 0
    };
    if !refused {
        if evaluation.would_drop == 0 {
            return if E::IN_STACK && evaluation.delay > 1 {
                Reason::Paced
            } else {
                Reason::Admitted
            };
        }
        // No limit refuses the packet: the limits in shadow count it as passed.
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

/// Whether one of the packet's new buckets cannot be made, for want of a token or of room. Then no bucket is made:
/// otherwise first buckets would take the new-source tokens, and few packets would get their last bucket. If it returns
/// false, the clock has been read.
#[inline(always)]
fn lacks_buckets<E: Engine>(
    engine: &E,
    evaluation: &mut Evaluation,
    prove: &impl Fn(&Evaluation) -> u32,
) -> bool {
    if evaluation.refused == Reason::NewSource as u32
        && any!(engine, evaluation, new, E::reserve)
        && !proves(engine, evaluation, prove)
    {
        return true;
    }
    // Read before the first charge: if a refund assumed too late a time of the charge, it would give too much.
    if evaluation.now == NOT_READ {
        evaluation.now = engine.now();
    }
    // A late tick has made the upper bound too low: the plans are not valid.
    if evaluation.now > evaluation.latest {
        evaluation.checked = 0;
    }
    false
}

/// Charges the packet to one limit. Makes the bucket if there is none.
#[inline(always)]
fn charge_or_add<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    let tried = engine.charge(evaluation, index);
    finish(engine, evaluation, index, tried, &|_| FIRST)
}

/// Lets a new source that a limit refuses prove its address. Returns true if it has: then the caller tries again.
#[inline(always)]
fn proves<E: Engine>(
    engine: &E,
    evaluation: &mut Evaluation,
    prove: &impl Fn(&Evaluation) -> u32,
) -> bool {
    if engine.config().proof >> evaluation.refused_by & 1 == 0
        || evaluation.refused != Reason::NewSource as u32
        || evaluation.budget == PROVEN
    {
        return false;
    }
    match prove(evaluation) {
        PROVEN => evaluation.budget = PROVEN,
        ANSWERS => evaluation.refused = Reason::Answered as u32,
        _ => {}
    }
    evaluation.budget == PROVEN
}

/// Finishes a charge after its first attempt, which has returned this code.
#[inline(always)]
fn finish<E: Engine>(
    engine: &E,
    evaluation: &mut Evaluation,
    index: u32,
    first: u32,
    prove: &impl Fn(&Evaluation) -> u32,
) -> u32 {
    let mut tried = first;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tried = engine.charge(evaluation, index);
        }
        match tried {
            NEW => {
                let mut added = engine.add(evaluation, index);
                if added == FULL {
                    added = engine.replace(evaluation, index);
                }
                // Not by the next attempt: the verifier would follow all of them once more.
                if added == REFUSED && proves(engine, evaluation, prove) {
                    added = engine.add(evaluation, index);
                    if added == FULL {
                        added = engine.replace(evaluation, index);
                    }
                }
                if added != LOST {
                    return added;
                }
            }
            STALE => {
                engine.refresh(evaluation, index);
            }
            LOST => {}
            charged => return charged,
        }
    }
    engine.contended(evaluation, index)
}

/// Checks one limit, after a refresh if need be.
#[inline(always)]
fn check_fresh<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    // Three times: a CPU may have no lease, and the bucket be on a past quota and also too far ahead.
    for _ in 0..3 {
        let checked = engine.check(evaluation, index);
        if checked != STALE {
            return checked;
        }
        engine.refresh(evaluation, index);
    }
    // If the bucket is stale again, the charge decides.
    (engine.check(evaluation, index) == REFUSED).into()
}

/// Refunds the charge of one limit.
#[inline(always)]
fn refund<E: Engine>(engine: &E, evaluation: &mut Evaluation, index: u32) -> u32 {
    for _ in 0..ATTEMPTS {
        if engine.refund(evaluation, index) != LOST {
            break;
        }
    }
    engine.uncount(evaluation, index)
}
