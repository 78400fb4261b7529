//! Which limits match a packet.

use super::PacketInfo;
use crate::rules::{self, PORTS_MAX, PortRange, flags_may_be, may_be};

#[expect(clippy::cast_possible_truncation, reason = "a small constant")]
const PORTS: u32 = PORTS_MAX as u32;

/// Ports of one end, in the constants.
pub trait Ports: Copy {
    /// Ranges in use; 0: every port, and packets without one.
    fn length(self) -> u32;
    /// One of the ranges.
    fn range(self, index: u32) -> Option<PortRange>;
}

/// Which packets a limit matches: see [`rules::Match`].
pub trait Match: Copy {
    /// What its ports are.
    type Ports: Ports;
    /// 1: control traffic only.
    fn control(self) -> u32;
    /// Address family, or 0.
    fn family(self) -> u32;
    /// Transport protocol, or any.
    fn protocol(self) -> u32;
    /// Parts of datagrams.
    fn fragments(self) -> u32;
    /// TCP flags that are looked at.
    fn flags_mask(self) -> u32;
    /// Those that are set.
    fn flags(self) -> u32;
    /// Lists that the source is on one of, or 0.
    fn lists(self) -> u32;
    /// Lists that the source is on none of.
    fn unless(self) -> u32;
    /// Ports that packets go to.
    fn destination(self) -> Self::Ports;
    /// Ports that packets come from.
    fn source(self) -> Self::Ports;
}

/// Whether a limit matches the packet, whose source is on `lists`.
#[inline(always)]
pub fn matches<M: Match>(wanted: M, info: &PacketInfo, lists: u32) -> bool {
    let (family, some) = (wanted.family(), wanted.lists());
    info.control == wanted.control()
        && (family == 0 || family == info.source.family)
        && may_be(wanted.protocol(), info.protocol)
        && wanted.fragments() & info.fragment != 0
        && (some == 0 || some & lists != 0)
        && wanted.unless() & lists == 0
        && flags_may_be(wanted.flags_mask(), wanted.flags(), info.flags)
        && ports_match(wanted.destination(), info.destination_port)
        && ports_match(wanted.source(), info.source_port)
}

/// A limit without ports matches every packet, also one that has none.
#[inline(always)]
fn ports_match<P: Ports>(ports: P, port: u32) -> bool {
    let length = ports.length();
    if length == 0 {
        return true;
    }
    for index in 0..PORTS {
        if index >= length {
            break;
        }
        if ports.range(index).is_some_and(|range| range.holds(port)) {
            return true;
        }
    }
    false
}

impl Ports for &rules::Ports {
    fn length(self) -> u32 {
        self.length
    }

    fn range(self, index: u32) -> Option<PortRange> {
        self.ranges.get(index as usize).copied()
    }
}

impl<'a> Match for &'a rules::Match {
    type Ports = &'a rules::Ports;

    fn control(self) -> u32 {
        self.control
    }

    fn family(self) -> u32 {
        self.family
    }

    fn protocol(self) -> u32 {
        self.protocol
    }

    fn fragments(self) -> u32 {
        self.fragments
    }

    fn flags_mask(self) -> u32 {
        self.flags_mask
    }

    fn flags(self) -> u32 {
        self.flags
    }

    fn lists(self) -> u32 {
        self.lists
    }

    fn unless(self) -> u32 {
        self.unless
    }

    fn destination(self) -> &'a rules::Ports {
        &self.destination
    }

    fn source(self) -> &'a rules::Ports {
        &self.source
    }
}
