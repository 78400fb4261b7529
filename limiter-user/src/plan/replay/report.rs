//! The output of `replay --json`. Like in `observe`, fields may be added, but not changed.

use limiter_common::abi::counters::LimitCounters;
use limiter_config::Limit;
use serde::Serialize;

use super::{FRAME_MAX, Outcome, SourceCounters};
use crate::{
    observe::{Count, Drops, Passes, Verdicts},
    plan::capture::{Capture, Unread},
};

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// True if the capture was read to its end; false if it is cut off or damaged, and the rest is missing.
    pub complete: bool,
    /// Seconds from the first packet to the last, according to the capture.
    pub seconds: f64,
    /// Packets by verdict.
    #[serde(flatten)]
    pub verdicts: Verdicts,
    /// Dropped packets by reason. Their sum is `dropped`.
    pub drops: Drops,
    /// Packets that passed without being charged, by reason.
    pub passes: Passes,
    /// Packets that limits do not apply to, because the capture says that they have the other direction; part of `passed`.
    pub other_direction: Count,
    /// Packets of which the capture has only a part. Missing fields are charged as if they matched.
    pub truncated_packets: u64,
    /// Packets that cannot be read, by reason; no part of `seen`.
    pub unread: Vec<UnreadPackets>,
    /// Gaps of more than a year between packets. Each counts as a year.
    pub long_gaps: u64,
    /// Packets with an earlier time than the one before. They arrive together with it.
    pub earlier_packets: u64,
    /// The limits.
    pub limits: Vec<ReplayedLimit>,
    /// The sources that lost packets, or would have without shadow, most dropped first.
    pub sources: Vec<ReplayedSource>,
    /// Packets of sources that did not fit into memory.
    pub other_sources_packets: u64,
}

/// Packets that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnreadPackets {
    /// `link_type`, `no_time`, `no_interface` or `damaged`.
    pub reason: &'static str,
    /// Number of the link type that limiter does not read; null for other reasons.
    pub link_type: Option<u32>,
    /// Packets.
    pub packets: u64,
}

/// The decisions of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplayedLimit {
    /// Name of the limit.
    pub name: String,
    /// The rate, in canonical form.
    pub rate: String,
    /// The burst, as written or derived from the rate.
    pub burst: String,
    /// The key, as written.
    pub key: String,
    /// Packets that the limit admitted.
    pub admitted: Count,
    /// Packets that the limit dropped.
    pub dropped: Count,
    /// Packets that the limit would have dropped without shadow.
    pub would_drop: Count,
}

/// Packets of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplayedSource {
    /// The source, as wide as the finest key of the limits.
    pub source: String,
    /// Packets that passed.
    pub passed_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Packets that passed only because of shadow; part of `passed_packets`.
    pub would_drop_packets: u64,
}

impl Report {
    /// The report about a capture that was replayed to its end.
    pub fn new(capture: &Capture, outcome: &Outcome) -> Self {
        let times = capture.times();
        let hit = outcome
            .sources
            .iter()
            .filter(|(_, counters)| counters.is_hit());
        let unread = capture.unread.iter();
        Self {
            complete: capture.cut.is_none(),
            seconds: outcome.seconds,
            verdicts: outcome.verdicts,
            drops: outcome.drops.clone(),
            passes: outcome.passes.clone(),
            other_direction: outcome.other_direction,
            truncated_packets: outcome.truncated,
            unread: unread
                .map(|(why, packets)| left_out(*why, *packets))
                .collect(),
            long_gaps: times.long_gaps,
            earlier_packets: times.earlier,
            limits: outcome.limits.iter().map(limit).collect(),
            sources: hit.map(source).collect(),
            other_sources_packets: outcome.of_others,
        }
    }
}

fn left_out(why: Unread, packets: u64) -> UnreadPackets {
    UnreadPackets {
        reason: why.name(),
        link_type: match why {
            Unread::Link(number) => Some(number),
            _ => None,
        },
        packets,
    }
}

fn limit((limit, counters): &(Limit, LimitCounters)) -> ReplayedLimit {
    let burst = limit.burst(FRAME_MAX).map(|burst| burst.to_string());
    ReplayedLimit {
        name: limit.name.clone(),
        rate: limit.rate.to_string(),
        burst: burst.unwrap_or_default(),
        key: limit.key.to_string(),
        admitted: counters.admitted.into(),
        dropped: counters.dropped.into(),
        would_drop: counters.would_drop.into(),
    }
}

fn source((source, counters): &(String, SourceCounters)) -> ReplayedSource {
    ReplayedSource {
        source: source.clone(),
        passed_packets: counters.passed,
        dropped_packets: counters.dropped,
        would_drop_packets: counters.would_drop,
    }
}
