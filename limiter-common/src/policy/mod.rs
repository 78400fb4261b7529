//! The policy: parser and limits. The kernel program and `limiter replay` share this code. It is generic over the bytes
//! of a packet ([`Bytes`]), over constants, buckets, clock and counters ([`Environment`]), and over the functions of its
//! own that the kernel program exports ([`Steps`]).
//!
//! [`mod@parse`] and [`transport`] fill a [`PacketInfo`]. [`fast`] or [`full`], with an [`Evaluation`], decide by
//! [`fn@matches`] and [`bucket`].

pub mod a2s;
pub mod attempt;
pub mod ban;
pub mod bits;
pub mod bucket;
mod bytes;
pub mod candidates;
pub mod client;
pub mod connection;
pub mod control;
pub mod datagram;
mod direct;
pub mod dns;
mod environment;
mod evaluation;
pub mod fast;
pub mod full;
pub mod handshake;
pub mod headers;
mod info;
pub mod learn;
mod matches;
pub mod merged;
pub mod new_sources;
pub mod parse;
pub mod payload;
pub mod protocols;
pub mod related;
mod room;
pub mod second_chance;
pub mod step;
mod steps;
pub mod transport;
pub mod verdict;

pub use bytes::{Bytes, sender};
pub use direct::Direct;
pub use environment::{Environment, Found, TimeBounds};
pub use evaluation::Evaluation;
pub use info::PacketInfo;
pub use matches::{certain, matches, port_holds};
pub use parse::{Parsed, parse, read};
pub use room::{has_room, kept};
pub use steps::Steps;
pub use transport::size_of_header;

use crate::{
    abi::rules::{ON_ALLOW, ON_BAN, ON_DENY},
    policy::verdict::Reason,
};

/// The reason that the lists decide by, if they do: these are the bits of the lists that a packet's peer is on.
#[inline(always)]
pub const fn of_lists(lists: u32) -> Option<Reason> {
    if lists & ON_BAN != 0 {
        Some(Reason::Ban)
    } else if lists & ON_DENY != 0 {
        Some(Reason::Deny)
    } else if lists & ON_ALLOW != 0 {
        Some(Reason::Allowed)
    } else {
        None
    }
}

/// The reason under which a packet is counted: with shadow, no packet is dropped.
#[inline(always)]
pub fn apply_shadow<E: Environment>(environment: &E, reason: Reason) -> Reason {
    let shadow = environment.constants().shadow != 0;
    match reason {
        Reason::Malformed if shadow => Reason::MalformedWouldDrop,
        reason if shadow && !reason.passes() => Reason::WouldDrop,
        reason => reason,
    }
}

/// The reason for a packet with an unreadable source. A packet with too many VLAN tags never passes, because the host
/// might deliver it without any limit.
#[inline(always)]
pub fn unreadable<E: Environment>(environment: &E, parsed: Parsed) -> Reason {
    match parsed {
        Parsed::Malformed if environment.constants().malformed_passes != 0 => {
            Reason::MalformedPassed
        }
        _ => Reason::Malformed,
    }
}
