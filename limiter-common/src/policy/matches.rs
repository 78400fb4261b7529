//! Decides whether a limit matches a packet.

use core::hint::black_box;

use super::PacketInfo;
use crate::abi::rules::{Match, PORTS_MAX, Ports, flags_may_be, may_be};

/// Whether a limit matches the packet. `lists`: bits of the lists that the packet's source is on.
#[must_use]
#[inline(always)]
pub fn matches(wanted: &Match, info: &PacketInfo, lists: u32) -> bool {
    info.control == wanted.control
        && (wanted.family == 0 || wanted.family == info.source.family)
        && may_be(wanted.protocol, info.protocol)
        && wanted.fragments & info.fragment != 0
        && (wanted.lists == 0 || wanted.lists & lists != 0)
        && wanted.unless & lists == 0
        && wanted.length_min <= info.length
        && info.length <= wanted.length_max
        && flags_may_be(wanted.flags_mask, wanted.flags, info.flags)
        && ports_match(&wanted.destination, info.destination_port)
        && ports_match(&wanted.source, info.source_port)
}

/// Whether a limit's ports match. A limit without ports matches every packet, also one without ports.
#[inline(always)]
fn ports_match(ports: &Ports, port: u32) -> bool {
    let length = ports.length as usize;
    if length == 0 {
        return true;
    }
    for index in 0..PORTS_MAX {
        if index >= length {
            break;
        }
        // Hides the index from the compiler, which would otherwise advance a pointer through the ranges, without a
        // bound that the verifier of Linux 6.1 sees.
        let range = ports.ranges.get(black_box(index));
        if range.is_some_and(|range| range.contains(port)) {
            return true;
        }
    }
    false
}
