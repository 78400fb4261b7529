//! The full path: lists, then all limits that match. A packet is charged to all of them or to none: all limits are
//! checked, then charged, and charges are refunded if a later limit refuses.

use core::hint::black_box;

use super::{
    Environment, Evaluation, Parsed, Steps, apply_shadow,
    attempt::{ATTEMPTS, Attempt, Attempts, settle},
    bucket::{NOT_READ, may_replace},
    client,
    control::{self, Recognised},
    matches::payload_holds,
    of_lists, parse, payload,
    step::Step,
    unreadable,
};
use crate::{
    abi::rules::{
        ANSWERS, ANY, CONTROL_NEAR, FIRST, LIMITS_MAX, NEEDS_CONNECTION, NEEDS_DESTINATION_LISTS,
        NEEDS_HOLD, NEEDS_PAIR, NEEDS_PAYLOAD, NEEDS_PAYLOAD_LENGTH, NEEDS_SOURCE_LISTS,
        NEEDS_VLAN, ON_ALLOW, ON_DENY, PROVEN,
    },
    policy::{candidates::lowest, verdict::Reason},
};

/// Calls a step for each limit with its bit set, until one returns true. A macro, because the compiler would make a
/// function with a stack frame of its own.
macro_rules! any {
    ($environment:expr, $evaluation:expr, $bits:ident, $step:expr) => {{
        let mut answered = false;
        for index in 0..LIMITS_MAX {
            if index >= $environment.constants().limits_length {
                break;
            }
            if $evaluation.$bits >> index & 1 != 0 && $step($environment, $evaluation, index) {
                answered = true;
                break;
            }
        }
        answered
    }};
}

/// Calls a step for each limit with its bit set.
macro_rules! each {
    ($environment:expr, $evaluation:expr, $bits:ident, $step:expr) => {
        for index in 0..LIMITS_MAX {
            if index >= $environment.constants().limits_length {
                break;
            }
            if $evaluation.$bits >> index & 1 != 0 {
                $step($environment, $evaluation, index);
            }
        }
    };
}

/// Reads a packet from its Ethernet header on, or returns the reason why no limit applies to it. Calls `begin` for
/// packets that limits may match.
#[inline(always)]
pub fn read<E: Environment, B: Recognised>(
    environment: &E,
    packet: &mut B,
    evaluation: &mut Evaluation,
    begin: impl FnOnce(),
) -> Result<(), Reason> {
    let frame = *packet;
    let parsed = parse(packet);
    match parsed {
        Parsed::Ipv4(_) | Parsed::Ipv6(_) => {}
        Parsed::Arp(_) if environment.constants().control != 0 => {}
        Parsed::NotIp | Parsed::Arp(_) => return Err(Reason::NotIp),
        Parsed::Malformed | Parsed::TooManyTags => return Err(unreadable(environment, parsed)),
    }
    begin();
    let needs = environment.constants().needs;
    if needs & NEEDS_VLAN != 0 {
        evaluation.vlan = frame.vlan();
    }
    let from = packet.remaining();
    parsed.read(packet, needs, &mut evaluation.info);
    #[expect(clippy::cast_possible_truncation, reason = "bytes of headers")]
    let header = from.wrapping_sub(packet.remaining()) as u32;
    if needs & control::NEEDS != 0 {
        evaluation.client = 0;
        if control::may_be(&evaluation.info) {
            let constants = environment.constants();
            let control = B::control(&frame, packet, header, &evaluation.info, constants);
            evaluation.info.control = control & ((1 << control::KIND_BITS) - 1);
            evaluation.client = (control >> control::KIND_BITS).into();
        }
    }
    // Last, because it moves on in the packet.
    if needs & (NEEDS_PAYLOAD | NEEDS_PAYLOAD_LENGTH) != 0 {
        if needs & NEEDS_PAYLOAD_LENGTH != 0 {
            evaluation.payload_length = payload::length(packet, &evaluation.info, header);
        }
        if needs & NEEDS_PAYLOAD != 0 {
            evaluation.payload.read(packet, &evaluation.info, header);
        }
    }
    Ok(())
}

/// Decides about a packet after [`read`]. `is_connected` looks it up among the host's sockets. `is_related` returns true for
/// an error about a connection, and then makes it [count](Evaluation::count_as) as a packet of the connection. `prove`: see
/// [`super::fast::charge`].
#[inline(always)]
pub fn evaluate<S: Steps>(
    environment: &S,
    evaluation: &mut Evaluation,
    is_connected: impl Fn(&Evaluation) -> bool,
    is_related: impl FnOnce(&mut Evaluation) -> bool,
    prove: impl Fn(&Evaluation) -> u32,
) -> Reason {
    let control = evaluation.info.control;
    if control & CONTROL_NEAR == 0 {
        evaluation.lists = environment.lists(evaluation);
        if let Some(reason) = of_lists(evaluation.lists) {
            return apply_shadow(environment, reason);
        }
        // Allow, deny and bans are about the peer, and matches about the source.
        if environment.constants().needs & NEEDS_SOURCE_LISTS != 0 {
            let throttled = evaluation.lists & environment.constants().throttled;
            let lists = environment.lists_of(&evaluation.info.source);
            evaluation.lists = lists & !(ON_ALLOW | ON_DENY) | throttled;
        }
    }
    // Behind the lists: these are about the sender of the error.
    let is_related = environment.constants().established != 0
        && evaluation.info.control == 0
        && evaluation.info.may_be_error()
        && is_related(evaluation);
    if is_related && environment.constants().candidates.by_list != 0 {
        evaluation.lists = environment.lists_of(&evaluation.info.source) & !(ON_ALLOW | ON_DENY);
    }
    if environment.constants().control != 0 && evaluation.client != 0 {
        evaluation.info.source = client::address(evaluation.client);
    }
    if environment.constants().needs & NEEDS_DESTINATION_LISTS != 0 {
        evaluation.destination_lists = environment.lists_of(&evaluation.info.destination);
    }
    find_matching(environment, evaluation);
    let is_connected = |evaluation: &Evaluation| is_related || is_connected(evaluation);
    let decided = if exceeds_bound(environment, evaluation, &is_connected) {
        Reason::Connections
    } else {
        decide(environment, evaluation, is_connected, &prove)
    };
    // The common ones at once: for others, more is asked.
    match decided {
        Reason::Admitted => return Reason::Admitted,
        Reason::Limit
            if evaluation.counted != 0 && environment.constants().needs & NEEDS_HOLD == 0 =>
        {
            return apply_shadow(environment, Reason::Limit);
        }
        _ => {}
    }
    let reason = apply_shadow(environment, decided);
    if !decided.passes() && evaluation.counted == 0 {
        evaluation.passed = reason.passes().into();
        S::count_over(environment, evaluation, evaluation.refused_by);
    }
    if environment.constants().needs & NEEDS_HOLD != 0 && matches!(reason, Reason::Limit) {
        hold(environment, evaluation);
        // A question of a source over its limit may get an answer, too.
        if environment.constants().truncates >> evaluation.refused_by & 1 != 0
            && prove(evaluation) == ANSWERS
        {
            return Reason::Answered;
        }
    }
    reason
}

/// True if the packet opens a connection, or completes a handshake, whose key has as many open connections as a limit
/// allows. Packets of open connections pass. As long as no key is at its bound, this costs one word of memory.
#[inline(always)]
fn exceeds_bound<S: Steps>(
    environment: &S,
    evaluation: &mut Evaluation,
    is_connected: &impl Fn(&Evaluation) -> bool,
) -> bool {
    let constants = environment.constants();
    let limits = constants.bounds.limits;
    if limits == 0 || !evaluation.info.may_connect() || !environment.is_any_full() {
        return false;
    }
    let opens = evaluation.info.opens_connection();
    for index in 0..LIMITS_MAX {
        if index >= constants.limits_length {
            break;
        }
        if limits >> index & 1 == 0 || !S::is_full(environment, evaluation, index) {
            continue;
        }
        if !opens && is_connected(evaluation) {
            return false;
        }
        if evaluation.would_drop == 0 {
            evaluation.note(index, Reason::Connections);
        }
        if constants.limit(index).is_none_or(|limit| limit.shadow == 0) {
            evaluation.note(index, Reason::Connections);
            evaluation.would_drop = 0;
            return true;
        }
        evaluation.would_drop |= 1 << index;
    }
    false
}

/// Holds the bucket of the limit that has refused the packet.
#[inline(always)]
fn hold<S: Steps>(environment: &S, evaluation: &mut Evaluation) {
    for _ in 0..ATTEMPTS {
        if S::hold(environment, evaluation, evaluation.refused_by) {
            break;
        }
    }
}

#[inline(always)]
fn find_matching<S: Steps>(environment: &S, evaluation: &mut Evaluation) {
    let constants = environment.constants();
    let candidates = &constants.candidates;
    evaluation.matching =
        candidates.of_packet(&evaluation.info, evaluation.lists, constants.needs != 0);
    if evaluation.matching & candidates.uncertain(evaluation.lists) != 0 {
        each!(environment, evaluation, matching, confirm_if_uncertain);
    }
    if constants.needs & NEEDS_PAIR != 0 {
        each!(environment, evaluation, matching, S::pair);
    }
}

#[inline(always)]
fn confirm_if_uncertain<S: Steps>(environment: &S, evaluation: &mut Evaluation, index: u32) {
    let constants = environment.constants();
    if constants.candidates.uncertain(evaluation.lists) >> index & 1 == 0 {
        return;
    }
    // Most limits with a payload end here, which costs less than a call.
    if constants.needs & NEEDS_PAYLOAD != 0
        && let Some(limit) = constants.limit(index)
        && !payload_holds(limit, evaluation)
    {
        evaluation.matching &= !(1 << index);
        return;
    }
    S::confirm(environment, evaluation, index);
}

/// Leaves the matching limits that apply to a packet of an established connection, or to another packet. Returns whether
/// the packet is exempt from the limits that are left out. Ports that cannot be seen leave all limits.
#[inline(always)]
fn is_exempt<S: Steps>(
    environment: &S,
    evaluation: &mut Evaluation,
    is_connected: impl FnOnce(&Evaluation) -> bool,
) -> bool {
    let constants = environment.constants();
    let candidates = &constants.candidates;
    if constants.established == 0 && evaluation.matching & candidates.by_connection() == 0 {
        return false;
    }
    if !evaluation.info.opens_connection() && is_connected(evaluation) {
        // A connection shows that the address is real: a flood of new sources may not use up its tokens.
        evaluation.budget = PROVEN;
        evaluation.matching &= if constants.established != 0 {
            candidates.of_connections
        } else {
            !candidates.of_others
        };
        return constants.established != 0;
    }
    if candidates.of_connections != 0 && evaluation.info.source_port != ANY {
        evaluation.matching &= !candidates.of_connections;
    }
    false
}

/// Leaves out the limits on packets that no other limit matches, if another one matches for certain. A packet that shows too
/// little for that is charged to both: otherwise, it would get more than a packet that shows all.
#[inline(always)]
fn leave_out_rest<S: Steps>(environment: &S, evaluation: &mut Evaluation) {
    let constants = environment.constants();
    let rest = constants.candidates.of_rest;
    if evaluation.matching & rest == 0 || evaluation.matching & !rest == 0 {
        return;
    }
    if evaluation.is_seen(constants.needs)
        || any!(environment, evaluation, matching, is_certain_other)
    {
        evaluation.matching &= !rest;
    }
}

#[inline(always)]
fn is_certain_other<S: Steps>(environment: &S, evaluation: &mut Evaluation, index: u32) -> bool {
    environment.constants().candidates.of_rest >> index & 1 == 0
        && S::is_certain(environment, evaluation, index)
}

/// Decides by the limits that match. A packet of an exempt connection is charged only to limits on connections.
#[inline(always)]
fn decide<S: Steps>(
    environment: &S,
    evaluation: &mut Evaluation,
    is_connected: impl FnOnce(&Evaluation) -> bool,
    prove: &impl Fn(&Evaluation) -> u32,
) -> Reason {
    if evaluation.matching == 0 {
        return Reason::Unlimited;
    }
    if environment.constants().needs & NEEDS_CONNECTION != 0 {
        let is_exempt = is_exempt(environment, evaluation, is_connected);
        if evaluation.matching == 0 {
            return if is_exempt {
                Reason::Established
            } else {
                Reason::Unlimited
            };
        }
    }
    if environment.constants().candidates.of_rest != 0 {
        leave_out_rest(environment, evaluation);
    }
    let refused = if evaluation.matching & (evaluation.matching - 1) != 0 {
        evaluation.checked = 1;
        // The checks may decide by these bounds.
        let bounds = environment.time_bounds();
        evaluation.latest = bounds.map_or(u64::MAX, |bounds| bounds.latest);
        any!(environment, evaluation, matching, check_fresh)
            || lacks_buckets(environment, evaluation, prove)
            || any!(environment, evaluation, matching, charge_or_add)
    } else {
        // Hidden from the compiler, which would otherwise leave out bounds checks that the verifier requires. Once more behind
        // a check: if the compiler keeps the index on the stack, Linux 6.1 learns no later bounds.
        let index = black_box(lowest(evaluation.matching));
        if index >= LIMITS_MAX {
            return Reason::Unlimited;
        }
        let index = black_box(index);
        // The first attempt is inlined: it is the only one for most packets.
        let tried = match Step::new(environment, evaluation, index) {
            Some(step) => step.charge_alone(),
            None => Attempt::Admitted,
        };
        // Nothing else was charged or noted.
        if matches!(tried, Attempt::Refused) {
            return Reason::Limit;
        }
        let mut charge = Charge {
            environment,
            evaluation,
            index,
            prove,
        };
        refuses(&mut charge, tried)
    };
    if !refused {
        if evaluation.would_drop == 0 {
            return if S::IN_STACK && evaluation.delay > 1 {
                Reason::Paced
            } else {
                Reason::Admitted
            };
        }
        // No limit refuses the packet: the limits in shadow count it as passed.
        evaluation.passed = 1;
        each!(environment, evaluation, would_drop, S::count_over);
        return Reason::WouldDrop;
    }
    if evaluation.charged != 0 {
        each!(environment, evaluation, charged, refund);
    }
    // Only the limit that refuses the packet is reported.
    evaluation.would_drop = 0;
    limit_reason(evaluation.refused)
}

/// The reason with this number, of those that a limit decides.
#[inline(always)]
const fn limit_reason(number: u32) -> Reason {
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

/// True if one of the packet's new buckets cannot be made, for want of a token or of room. Then no bucket is made:
/// otherwise first buckets would take the new-source tokens, and few packets would get their last bucket. If it returns
/// false, the clock has been read.
#[inline(always)]
fn lacks_buckets<S: Steps>(
    environment: &S,
    evaluation: &mut Evaluation,
    prove: &impl Fn(&Evaluation) -> u32,
) -> bool {
    if evaluation.refused == Reason::NewSource as u32
        && any!(environment, evaluation, new, S::lacks_bucket)
        && !proves(environment, evaluation, prove)
    {
        return true;
    }
    // Read before the first charge: if a refund assumed too late a time of the charge, it would give too much.
    if evaluation.now == NOT_READ {
        evaluation.now = environment.now();
    }
    // A late tick has made the upper bound too low: the plans are not valid.
    if evaluation.now > evaluation.latest {
        evaluation.checked = 0;
    }
    false
}

/// Charges the packet to one limit. Makes the bucket if there is none. Returns true if the limit refuses the packet.
#[inline(always)]
fn charge_or_add<S: Steps>(environment: &S, evaluation: &mut Evaluation, index: u32) -> bool {
    let tried = S::charge(environment, evaluation, index);
    let mut charge = Charge {
        environment,
        evaluation,
        index,
        prove: &|_: &Evaluation| FIRST,
    };
    refuses(&mut charge, tried)
}

/// The charge of a packet to one limit.
struct Charge<'a, S, P> {
    environment: &'a S,
    evaluation: &'a mut Evaluation,
    index: u32,
    prove: &'a P,
}

impl<S: Steps, P: Fn(&Evaluation) -> u32> Attempts for Charge<'_, S, P> {
    #[inline(always)]
    fn charge(&mut self) -> Attempt {
        S::charge(self.environment, self.evaluation, self.index)
    }

    #[inline(always)]
    fn refresh(&mut self) {
        S::refresh(self.environment, self.evaluation, self.index);
    }

    #[inline(always)]
    fn add(&mut self) -> Attempt {
        S::add(self.environment, self.evaluation, self.index)
    }

    #[inline(always)]
    fn replace(&mut self, budget: u32) -> Attempt {
        // Once more, so that programs without the call do not have the function.
        if !may_replace(self.environment) {
            return Attempt::RefusedNew;
        }
        S::replace(self.environment, self.evaluation, self.index, budget)
    }

    #[inline(always)]
    fn proves(&mut self) -> bool {
        proves(self.environment, self.evaluation, self.prove)
    }
}

/// Finishes a charge after its first attempt. Returns true if the limit refuses the packet.
#[inline(always)]
fn refuses<S: Steps, P: Fn(&Evaluation) -> u32>(
    charge: &mut Charge<'_, S, P>,
    first: Attempt,
) -> bool {
    let decided = match settle::<S>(charge, first) {
        Attempt::Lost => S::contended(charge.environment, charge.evaluation, charge.index),
        decided => decided,
    };
    !matches!(decided, Attempt::Admitted)
}

/// Lets a new source that a limit refuses prove its address. Returns true if it has: then the caller tries again.
#[inline(always)]
fn proves<S: Steps>(
    environment: &S,
    evaluation: &mut Evaluation,
    prove: &impl Fn(&Evaluation) -> u32,
) -> bool {
    if environment.constants().proof >> evaluation.refused_by & 1 == 0
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

/// Checks one limit, after a refresh if need be. Returns true if the limit refuses the packet.
#[inline(always)]
fn check_fresh<S: Steps>(environment: &S, evaluation: &mut Evaluation, index: u32) -> bool {
    // Three times: a CPU may have no lease, and the bucket be on a past quota and also too far ahead.
    for _ in 0..3 {
        match S::check(environment, evaluation, index) {
            Attempt::Stale => S::refresh(environment, evaluation, index),
            checked => return !matches!(checked, Attempt::Admitted),
        }
    }
    // If the bucket is stale again, the charge decides.
    matches!(S::check(environment, evaluation, index), Attempt::Refused)
}

/// Refunds the charge of one limit.
#[inline(always)]
fn refund<S: Steps>(environment: &S, evaluation: &mut Evaluation, index: u32) {
    for _ in 0..ATTEMPTS {
        if S::refund(environment, evaluation, index) {
            break;
        }
    }
    S::uncount(environment, evaluation, index);
}
