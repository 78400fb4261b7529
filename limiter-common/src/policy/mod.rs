//! The policy: the parser and the limits. One piece of code for the program in the kernel and for `limiter replay`,
//! generic over the bytes of a packet ([`Bytes`]) and over the owner of the constants, the buckets, the clock and the
//! counters ([`Engine`]).
//!
//! [`parse`] → [`transport`], with what they find in a [`PacketInfo`] → [`fast`], or [`full`] with an [`Evaluation`] →
//! [`matches`], [`bucket`].

pub mod bucket;
mod bytes;
pub mod candidates;
pub mod denied;
mod engine;
mod evaluation;
pub mod fast;
pub mod full;
mod info;
mod matches;
pub mod new_sources;
pub mod parse;
mod room;
pub mod step;
pub mod transport;
pub mod verdict;

pub use bytes::Bytes;
pub use engine::{Between, Constants, Engine, Found, Limit};
pub use evaluation::Evaluation;
pub use info::PacketInfo;
pub use matches::{Match, Ports, matches};
pub use parse::{Parsed, parse, read};
pub use room::{has_room, kept};
pub use transport::size_of_header;

use crate::policy::verdict::Reason;

/// The reason that the packet is counted under: in shadow, no packet is dropped.
#[inline(always)]
pub fn apply_shadow<C: Constants>(constants: &C, reason: Reason) -> Reason {
    match reason {
        Reason::Malformed if constants.shadow() => Reason::MalformedWouldDrop,
        reason if constants.shadow() && !reason.passes() => Reason::WouldDrop,
        reason => reason,
    }
}
