//! Several limits: which of them match, and all or nothing. Each is asked first and charged then; what was
//! charged is taken back where a later one refuses after all.
//!
//! The exported functions are checked once by the verifier, whatever the number of limits: that is what
//! an exported symbol means to it (global functions, Linux 5.6; pointers to memory, 5.12).

use aya_ebpf::programs::XdpContext;
use limiter_common::{
    candidates::lowest,
    key::Tag,
    rules::{LIMITS_MAX, PORTS_MAX, flags_may_be, may_be},
    verdict::Reason,
};

use crate::bucket::{self, Charged, Demand, NOT_READ, Tried, Weighed};
use crate::config::{Limit, Ports};
use crate::facts::Facts;
use crate::{clock, config, connection, counters, newcomers, table, verdict};

/// Asks each limit whose bit is set, until one answers something else than 0. A macro, because the compiler
/// would make a function with a stack of its own.
macro_rules! any {
    ($facts:expr, $bits:ident, $ask:path) => {{
        let mut answered = false;
        for index in 0..LIMITS_MAX {
            if index >= config::limits_length() {
                break;
            }
            if $facts.$bits >> index & 1 != 0 && $ask(&raw mut *$facts, index) != 0 {
                answered = true;
                break;
            }
        }
        answered
    }};
}

/// Finds the limits that match the packet.
#[inline(always)]
pub fn classify(facts: &mut Facts) {
    facts.matching = config::candidates(
        facts.info.control,
        facts.info.source.family,
        facts.info.fragment,
    );
    if config::transport() {
        facts.matching &= config::candidates_of_protocol(facts.info.protocol)
            & config::candidates_to(facts.info.destination_port)
            & config::candidates_from(facts.info.source_port);
    }
    if facts.matching & config::look_closer() != 0 {
        any!(facts, matching, look_closer);
    }
}

/// Takes a candidate that does not match out of those that do. Always 0: all are looked at.
#[inline(always)]
fn look_closer(facts: *mut Facts, index: u32) -> u32 {
    if config::look_closer() >> index & 1 != 0 {
        limit_matches(facts, index);
    }
    0
}

/// What the limits that match say to the packet, which is charged to all of them or to none. A packet of an exempt
/// connection is charged to none.
#[inline(always)]
pub fn decide(context: &XdpContext, facts: &mut Facts) -> Reason {
    if facts.matching == 0 {
        return Reason::Unlimited;
    }
    let several = facts.matching & (facts.matching - 1) != 0;
    let refused = if several || config::established() {
        let refused = any!(facts, matching, weigh);
        if !refused && connection::is_exempt(context) {
            return Reason::Established;
        }
        refused || lacks_buckets(facts) || any!(facts, matching, charge)
    } else {
        charge(&raw mut *facts, lowest(facts.matching)) != 0
    };
    if !refused {
        if facts.would_drop == 0 {
            return Reason::Admitted;
        }
        count_would_drop(facts);
        return Reason::WouldDrop;
    }
    if facts.charged != 0 {
        any!(facts, charged, limit_refund);
    }
    // It is that one's doing alone.
    facts.would_drop = 0;
    bucket::reason(facts.refused.into())
}

/// The limit that the packet is over, or the first of several in shadow; and bits of all of them. Only where
/// it is over one.
#[inline(always)]
pub fn over(facts: &Facts) -> (u32, u64) {
    let limits = match facts.would_drop {
        0 => 1 << facts.refused_by,
        several => several,
    };
    (facts.refused_by.into(), limits)
}

/// Counts the packet for the limit that has refused it, where that has not done so; `reason` says what became
/// of it.
#[inline(always)]
pub fn count_refused(facts: &Facts, reason: Reason) {
    if facts.counted == 0 {
        limit_count(
            &raw const *facts,
            facts.refused_by.into(),
            reason.passes().into(),
        );
    }
}

/// Counts the packet for the limits in shadow that it is over, now that no other limit refuses it: for
/// none of them it has passed otherwise.
#[inline(always)]
fn count_would_drop(facts: &Facts) {
    for index in 0..LIMITS_MAX {
        if index >= config::limits_length() {
            break;
        }
        if facts.would_drop >> index & 1 != 0 {
            limit_count(&raw const *facts, index, 1);
        }
    }
}

/// Charges the packet to one limit; a bucket that is not there is made. Two functions, because the
/// stack has no room for one.
#[inline(always)]
pub fn charge(facts: *mut Facts, index: u32) -> u32 {
    for _ in 0..ATTEMPTS {
        let said = limit_charge(facts, index);
        if said == STALE {
            limit_refresh(facts, index);
            continue;
        }
        if said != NEW {
            return said;
        }
        let said = limit_add(facts, index);
        if said != NEW {
            return said;
        }
    }
    limit_lost(facts, index)
}

/// Asks one limit, charging nothing. As above.
#[inline(always)]
pub fn weigh(facts: *mut Facts, index: u32) -> u32 {
    // Twice: a bucket may stand on past terms, and be too far ahead as well.
    for _ in 0..2 {
        let said = limit_weigh(facts, index);
        if said != STALE {
            return said;
        }
        limit_refresh(facts, index);
    }
    // Where it still is, charging will tell.
    (limit_weigh(facts, index) == 1).into()
}

/// Losing the race to make a bucket this often means that it is made and forgotten as often.
const ATTEMPTS: u32 = 4;

/// What [`limit_charge`] says where there is no bucket yet, and [`limit_add`] where there is one after
/// all.
const NEW: u32 = 2;

/// What they say where the bucket is to be refreshed first.
const STALE: u32 = 3;

#[inline(always)]
fn key(facts: &Facts, limit: Limit) -> Tag {
    limit
        .mask()
        .key(limit.slot(), &facts.info.source, facts.info.key_port())
        .tag()
}

/// The facts, where they and the limit are there and `bits` has the limit's.
macro_rules! of_limit {
    ($facts:expr, $index:expr, $bits:ident) => {{
        // SAFETY: the caller's own, which the verifier has checked; it wants to see null checked.
        let facts = unsafe { $facts.as_mut() };
        match (facts, config::limit($index)) {
            (Some(facts), Some(limit)) if facts.$bits >> $index & 1 != 0 => (facts, limit),
            _ => return 0,
        }
    }};
}

/// 1 where the limit refuses the packet as things stand, or [`STALE`]. Charges nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn limit_weigh(facts: *mut Facts, index: u32) -> u32 {
    let (facts, limit) = of_limit!(facts, index, matching);
    let key = key(facts, limit);
    let mut demand = Demand::<false>::new(limit, &key, &mut facts.now, facts.length);
    match demand.weigh() {
        Weighed::Stale => STALE,
        Weighed::Said(_) if limit.shadow() => 0,
        Weighed::Said(Reason::Admitted) => 0,
        Weighed::Said(said) => {
            let charged = demand.charged(said);
            refuse(facts, index, limit, charged)
        }
        Weighed::New => {
            facts.new |= 1 << index;
            // Should there be no leave to make it, the first such limit is the one that refuses the packet.
            if !limit.shadow() && facts.refused != NEWCOMER {
                facts.refused_by = index as u8;
                facts.refused = NEWCOMER;
            }
            0
        }
    }
}

const NEWCOMER: u8 = Reason::Newcomer as u8;

/// Whether there is no leave for all the buckets that are to be made for the packet: then none is. Else the
/// first one would take what there is for new sources, and few packets would ever get their last. After it
/// the clock has been read, unless there is no leave.
#[inline(always)]
fn lacks_buckets(facts: &mut Facts) -> bool {
    if facts.refused == NEWCOMER && any!(facts, new, limit_reserve) {
        return true;
    }
    // Before the first charge at the latest: a refund that takes a charge to be later than it was gives back what
    // the bucket would have refilled without it.
    if facts.now == NOT_READ {
        facts.now = clock::now();
    }
    false
}

/// 1 where the limit has no leave to make a bucket for the packet, or no room for it. A token that it has leave for
/// stays in the lease until the packet is charged.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn limit_reserve(facts: *mut Facts, index: u32) -> u32 {
    let (facts, limit) = of_limit!(facts, index, new);
    if !newcomers::are_out(limit.slot()) {
        if facts.now == NOT_READ {
            facts.now = clock::now();
        }
        if table::admits(&key(facts, limit), facts.now, false) {
            return 0;
        }
    }
    if !limit.shadow() {
        facts.refused_by = index as u8;
    }
    1
}

/// Charges the packet to the limit. 1 where that refuses it, [`NEW`] where there is no bucket yet, or
/// [`STALE`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn limit_charge(facts: *mut Facts, index: u32) -> u32 {
    let (facts, limit) = of_limit!(facts, index, matching);
    let key = key(facts, limit);
    let mut demand = Demand::<true>::new(limit, &key, &mut facts.now, facts.length);
    let mut said = Reason::Contended;
    for _ in 0..bucket::ATTEMPTS {
        match demand.charge_known() {
            Tried::Admitted => said = Reason::Admitted,
            Tried::Refused => said = Reason::Limit,
            Tried::New => return NEW,
            Tried::Stale => return STALE,
            Tried::Lost => continue,
        }
        break;
    }
    let charged = demand.charged(said);
    take(facts, index, limit, charged)
}

/// Calls [`bucket::refresh`] for the limit's bucket. Always 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn limit_refresh(facts: *mut Facts, index: u32) -> u32 {
    let (facts, limit) = of_limit!(facts, index, matching);
    bucket::refresh(&key(facts, limit), index);
    0
}

/// Makes the bucket, and charges it. Returns as [`limit_charge`] does. The first bucket that is made for the packet takes
/// the token for a new source.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn limit_add(facts: *mut Facts, index: u32) -> u32 {
    let (facts, limit) = of_limit!(facts, index, matching);
    let key = key(facts, limit);
    let pay = facts.paid == 0;
    let mut demand = Demand::<false>::new(limit, &key, &mut facts.now, facts.length);
    match demand.charge_new(pay) {
        Some(reason) => {
            facts.paid |= u8::from(matches!(reason, Reason::Admitted));
            take(facts, index, limit, reason.into())
        }
        None => NEW,
    }
}

/// The race was lost for good. 1, unless the limit is in shadow.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn limit_lost(facts: *mut Facts, index: u32) -> u32 {
    let (facts, limit) = of_limit!(facts, index, matching);
    take(facts, index, limit, Reason::Contended.into())
}

/// Notes what the limit has said, and counts a packet that it admits. 1 where it refuses the packet.
#[inline(always)]
fn take(facts: &mut Facts, index: u32, limit: Limit, charged: Charged) -> u32 {
    if !matches!(charged.reason, Reason::Admitted) {
        if !limit.shadow() {
            return refuse(facts, index, limit, charged);
        }
        if facts.would_drop == 0 {
            note(facts, index, charged.reason);
        }
        facts.would_drop |= 1 << index;
        return 0;
    }
    facts.charged |= 1 << index;
    if let Some(entry) = charged.entry.entry() {
        entry.count(Reason::Admitted);
    }
    counters::count_limit(limit.slot(), Reason::Admitted, facts.length);
    0
}

/// Takes back what [`take`] has charged and counted. Always 0: none is left out.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn limit_refund(facts: *mut Facts, index: u32) -> u32 {
    let (facts, limit) = of_limit!(facts, index, charged);
    let key = key(facts, limit);
    Demand::<false>::new(limit, &key, &mut facts.now, facts.length).refund();
    if let Some(entry) = table::find(&key) {
        entry.uncount();
    }
    counters::uncount_limit(limit.slot(), facts.length);
    0
}

/// Counts the packet for a limit that it is over: as dropped, or as passed because of shadow.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn limit_count(facts: *const Facts, index: u32, passed: u32) -> u32 {
    // SAFETY: as in `of_limit`.
    let Some(facts) = (unsafe { facts.as_ref() }) else {
        return 0;
    };
    let Some(limit) = config::limit(index) else {
        return 0;
    };
    let reason = if passed != 0 {
        Reason::WouldDrop
    } else {
        Reason::Limit
    };
    if let Some(entry) = table::find(&key(facts, limit)) {
        entry.count(reason);
    }
    counters::count_limit(limit.slot(), reason, facts.length);
    0
}

/// Notes what a limit that the packet is over has said.
#[inline(always)]
fn note(facts: &mut Facts, index: u32, reason: Reason) {
    facts.refused_by = index as u8;
    facts.refused = reason as u8;
}

/// Notes that the limit refuses the packet, and counts it, if nothing can let it pass any more. Always 1.
#[inline(always)]
fn refuse(facts: &mut Facts, index: u32, limit: Limit, charged: Charged) -> u32 {
    note(facts, index, charged.reason);
    if !config::established()
        && let Some(entry) = charged.entry.entry()
    {
        let reason = verdict::in_force(Reason::Limit);
        entry.count(reason);
        counters::count_limit(limit.slot(), reason, facts.length);
        facts.counted = 1;
    }
    1
}

/// Takes the limit out of those that match the packet, if it does not. Always 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn limit_matches(facts: *mut Facts, index: u32) -> u32 {
    let (facts, limit) = of_limit!(facts, index, matching);
    let wanted = limit.matches();
    let family = wanted.family();
    let lists = wanted.lists();
    let info = &facts.info;
    let holds = info.control == wanted.control()
        && (family == 0 || family == info.source.family)
        && may_be(wanted.protocol(), info.protocol)
        && wanted.fragments() & info.fragment != 0
        && (lists == 0 || lists & facts.lists != 0)
        && wanted.unless() & facts.lists == 0
        && flags_may_be(wanted.flags_mask(), wanted.flags(), info.flags)
        && ports_hold(wanted.destination(), info.destination_port)
        && ports_hold(wanted.source(), info.source_port);
    facts.matching &= !(u64::from(!holds) << index);
    0
}

/// A limit without ports holds every packet, also one that has none.
#[inline(always)]
fn ports_hold(ports: Ports, port: u32) -> bool {
    let length = ports.length();
    if length == 0 {
        return true;
    }
    for index in 0..PORTS_MAX as u32 {
        if index >= length {
            break;
        }
        if ports.range(index).is_some_and(|range| range.holds(port)) {
            return true;
        }
    }
    false
}
