//! Decides whether a limit matches a packet.

use super::PacketInfo;
use crate::abi::rules::{self, PORTS_MAX, PortRange, flags_may_be, may_be};

#[expect(clippy::cast_possible_truncation, reason = "a small constant")]
const PORTS: u32 = PORTS_MAX as u32;

/// Source or destination ports of a limit, in the constants.
pub trait Ports: Copy {
    /// Number of ranges; 0: every port, and packets without ports.
    fn length(self) -> u32;
    /// The range with this index.
    fn range(self, index: u32) -> Option<PortRange>;
}

macro_rules! fields {
    ($($name:ident),+) => {
        /// The packets that a limit matches: the fields of [`rules::Match`].
        pub trait Match: Copy {
            /// The type of its ports.
            type Ports: Ports;
            $(#[doc = concat!("[`rules::Match::", stringify!($name), "`].")]
            fn $name(self) -> u32;)+
            /// [`rules::Match::destination`].
            fn destination(self) -> Self::Ports;
            /// [`rules::Match::source`].
            fn source(self) -> Self::Ports;
        }

        impl<'a> Match for &'a rules::Match {
            type Ports = &'a rules::Ports;
            $(fn $name(self) -> u32 {
                self.$name
            })+
            fn destination(self) -> &'a rules::Ports {
                &self.destination
            }
            fn source(self) -> &'a rules::Ports {
                &self.source
            }
        }
    };
}

/// Calls a macro with the numeric fields of [`rules::Match`].
#[macro_export]
macro_rules! match_fields {
    ($macro:ident) => {
        $macro! {
            control, family, protocol, fragments, flags_mask, flags, lists, unless, length_min,
            length_max
        }
    };
}

match_fields!(fields);

/// Whether a limit matches the packet. `lists`: bits of the lists that the packet's source is on.
#[inline(always)]
pub fn matches<M: Match>(wanted: M, info: &PacketInfo, lists: u32) -> bool {
    let (family, some) = (wanted.family(), wanted.lists());
    info.control == wanted.control()
        && (family == 0 || family == info.source.family)
        && may_be(wanted.protocol(), info.protocol)
        && wanted.fragments() & info.fragment != 0
        && (some == 0 || some & lists != 0)
        && wanted.unless() & lists == 0
        && wanted.length_min() <= info.length
        && info.length <= wanted.length_max()
        && flags_may_be(wanted.flags_mask(), wanted.flags(), info.flags)
        && ports_match(wanted.destination(), info.destination_port)
        && ports_match(wanted.source(), info.source_port)
}

/// Whether a limit's ports match. A limit without ports matches every packet, also one without ports.
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
        if ports.range(index).is_some_and(|range| range.contains(port)) {
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
