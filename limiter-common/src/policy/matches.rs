//! Decides whether a limit matches a packet.

use core::hint::black_box;

use super::{Evaluation, PacketInfo, payload::Payload};
use crate::abi::rules::{
    ANY, DESTINATION_PORT, DSCP, ICMP_TYPE, LENGTH, Limit, Match, NEEDS_EXCEPT,
    NEEDS_PAYLOAD_LENGTH, NEEDS_VLAN, NONE, PAYLOAD_LENGTH, Pattern, RANGES_MAX, SOURCE_PORT, TTL,
    VLAN,
};

/// True if a limit matches the packet. `needs`: bits of what limits use of a packet.
#[inline(always)]
pub fn matches(limit: &Limit, needs: u32, packet: &Evaluation) -> bool {
    holds::<true>(&limit.matches, needs, packet)
        && (needs & NEEDS_EXCEPT == 0 || !holds::<false>(&limit.except, needs, packet))
}

/// True if a limit matches the packet for certain, whatever the fields that cannot be seen.
#[inline(always)]
pub fn certain(limit: &Limit, needs: u32, packet: &Evaluation) -> bool {
    (limit.matches.established == 0 || packet.info.source_port != ANY)
        && holds::<false>(&limit.matches, needs, packet)
        && (needs & NEEDS_EXCEPT == 0 || !holds::<true>(&limit.except, needs, packet))
}

/// True if all fields hold, except [`Match::established`], and [`Match::control`], which the candidates decide. `UNSEEN`: the result for a field that cannot be seen. So a limit
/// applies in doubt.
#[inline(always)]
fn holds<const UNSEEN: bool>(wanted: &Match, needs: u32, packet: &Evaluation) -> bool {
    let info = &packet.info;
    (wanted.family == 0 || wanted.family == info.source.family)
        && protocol_holds::<UNSEEN>(wanted.protocol, info.protocol)
        && place_holds::<UNSEEN>(wanted.fragments, info.fragment)
        && (wanted.lists == 0 || wanted.lists & packet.lists != 0)
        && wanted.unless & packet.lists == 0
        && (wanted.destination == 0 || wanted.destination & packet.destination_lists != 0)
        && flags_hold::<UNSEEN>(wanted.flags_mask, wanted.flags, info.flags)
        && (wanted.counts == 0 || ranges_hold::<UNSEEN>(wanted, info))
        && (needs & NEEDS_PAYLOAD_LENGTH == 0
            || range_holds::<PAYLOAD_LENGTH, UNSEEN>(wanted, packet.payload_length))
        && (needs & NEEDS_VLAN == 0 || range_holds::<VLAN, UNSEEN>(wanted, packet.vlan))
        && (wanted.payload.end == 0 || pattern_holds::<UNSEEN>(&wanted.payload, &packet.payload))
}

#[inline(always)]
fn protocol_holds<const UNSEEN: bool>(wanted: u32, found: u32) -> bool {
    wanted == ANY || wanted == found || UNSEEN && found == ANY
}

/// True if the packet's place in its datagram is one of the wanted ones. Unseen, it may be any.
#[inline(always)]
fn place_holds<const UNSEEN: bool>(wanted: u32, found: u32) -> bool {
    if UNSEEN {
        wanted & found != 0
    } else {
        found & !wanted == 0
    }
}

/// True if exactly the flags `set` of those in `mask` are set.
#[inline(always)]
fn flags_hold<const UNSEEN: bool>(mask: u32, set: u32, found: u32) -> bool {
    match found {
        _ if mask == 0 => true,
        ANY => UNSEEN,
        NONE => false,
        found => found & mask == set,
    }
}

#[inline(always)]
fn ranges_hold<const UNSEEN: bool>(wanted: &Match, info: &PacketInfo) -> bool {
    range_holds::<DESTINATION_PORT, UNSEEN>(wanted, info.destination_port)
        && range_holds::<SOURCE_PORT, UNSEEN>(wanted, info.source_port)
        && range_holds::<LENGTH, UNSEEN>(wanted, info.length)
        && range_holds::<TTL, UNSEEN>(wanted, info.ttl)
        && range_holds::<DSCP, UNSEEN>(wanted, info.dscp)
        && range_holds::<ICMP_TYPE, UNSEEN>(wanted, info.icmp_type)
}

/// True if one of the field's ranges has the value, or the field has no range. [`NONE`] is in no range.
#[inline(always)]
fn range_holds<const FIELD: usize, const UNSEEN: bool>(wanted: &Match, value: u32) -> bool {
    let count = wanted.count(FIELD) as usize;
    if count == 0 {
        return true;
    }
    if value == ANY {
        return UNSEEN;
    }
    for index in 0..RANGES_MAX {
        if index >= count {
            break;
        }
        // Hides the index from the compiler, which would otherwise advance a pointer through the ranges, without a
        // bound that the verifier of Linux 6.1 sees.
        let range = wanted.ranges[FIELD].get(black_box(index));
        if range.is_some_and(|range| range.contains(value)) {
            return true;
        }
    }
    false
}

/// True if the ranges of the destination port have this one.
#[inline(always)]
pub fn port_holds(wanted: &Match, port: u32) -> bool {
    range_holds::<DESTINATION_PORT, true>(wanted, port)
}

/// True if the limit's pattern is in the payload, or may be.
#[inline(always)]
pub(super) fn payload_holds(limit: &Limit, packet: &Evaluation) -> bool {
    let pattern = &limit.matches.payload;
    pattern.end == 0 || pattern_holds::<true>(pattern, &packet.payload)
}

#[inline(always)]
fn pattern_holds<const UNSEEN: bool>(wanted: &Pattern, payload: &Payload) -> bool {
    if payload.length < wanted.end {
        return UNSEEN && payload.hidden != 0;
    }
    (payload.word(wanted.offset) ^ wanted.bits) & wanted.mask == 0
}
