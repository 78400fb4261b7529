//! The verdict on one packet of a replay.

use std::{
    net::IpAddr,
    time::{Duration, UNIX_EPOCH},
};

use limiter_common::{policy::verdict::Reason, table::key::Address};
use limiter_config::key::ip;
use serde::Serialize;

use crate::plan::capture::Packet;

/// The decision about a packet.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// The packet.
    pub packet: &'a Packet,
    /// The packet's source; none if it is not known.
    pub source: Option<Address>,
    /// The reason under which the packet is counted; none for a packet of the other direction.
    pub reason: Option<Reason>,
    /// The reason without shadow.
    pub why: Option<Reason>,
    /// The limit that refuses the packet.
    pub limit: Option<&'a str>,
}

/// A line of `replay --verdicts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PacketVerdict<'a> {
    /// Number of the packet in the capture, from 1. Packets that cannot be read have a number, but no line.
    pub number: u64,
    /// Time of the packet in the capture, RFC 3339.
    pub time: String,
    /// Source address as in the packet; null if it is not known.
    pub source: Option<IpAddr>,
    /// `pass`, `drop`, or `would_drop` for a packet that passes only because of shadow.
    pub verdict: &'static str,
    /// Name of the reason; of a packet that would be dropped, the reason without shadow. `other_direction`: the capture
    /// says that limits do not apply to the packet, because of its direction.
    pub reason: &'static str,
    /// The limit that refuses the packet, or that has no room for its source; null for other reasons.
    pub limit: Option<&'a str>,
}

impl<'a> From<&Decided<'a>> for PacketVerdict<'a> {
    fn from(decided: &Decided<'a>) -> Self {
        let time = UNIX_EPOCH + Duration::from_nanos(decided.packet.captured_at);
        Self {
            number: decided.packet.number,
            time: humantime::format_rfc3339_nanos(time).to_string(),
            source: decided.source.map(|source| ip(source.family, source.words)),
            verdict: match decided.reason {
                Some(reason) if reason.would_drop() => "would_drop",
                Some(reason) if !reason.passes() => "drop",
                _ => "pass",
            },
            reason: decided.why.map_or("other_direction", Reason::name),
            limit: decided.limit,
        }
    }
}
