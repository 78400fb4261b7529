//! `replay --json`: what limits would have done with a capture.

use limiter_common::policy::verdict::Reason;
use serde::Serialize;

use super::{Count, Drops, Verdicts};

/// `replay --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Replay {
    /// Who has decided: `kernel` or `model`.
    pub engine: &'static str,
    /// All packets by verdict; `seen` is the whole capture.
    #[serde(flatten)]
    pub verdicts: Verdicts,
    /// Packets with an IP header that cannot be one, whatever became of them.
    pub malformed: Count,
    /// Packets that are not IP; part of `passed`.
    pub not_ip: Count,
    /// Packets that the host has sent, as the capture says, which no limit looks at; part of `passed`.
    pub outgoing: Count,
    /// From the first packet to the last, in seconds.
    pub seconds: f64,
    /// Dropped packets by reason.
    pub drops: Drops,
    /// The limits.
    pub limits: Vec<ReplayedLimit>,
    /// Most dropped first, then most passed.
    pub sources: Vec<ReplayedSource>,
    /// Those that there was no room to keep apart, together; of a source that is among `sources`, what it had
    /// sent before may be here.
    pub other_sources: Option<SourceCounters>,
    /// Packets of which too little was captured for the limits: what is missing is charged as if it matched, and a packet without its IP header counts as malformed.
    pub cut_short_packets: u64,
    /// How the capture ends too early: `short` or `damaged`; null: it does not.
    pub cut: Option<&'static str>,
    /// How often the clock of the capture was set back.
    pub clock_set_back: u64,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplayedLimit {
    /// Its name.
    pub name: String,
    /// As written, in canonical form.
    pub rate: String,
    /// As written, or what follows from the rate.
    pub burst: String,
    /// As written.
    pub key: String,
    /// What it lets through, `would_drop` included.
    pub passed: Count,
    /// What it drops.
    pub dropped: Count,
    /// What it would drop without shadow.
    pub would_drop: Count,
}

/// One source.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplayedSource {
    /// An address, or a prefix.
    pub source: String,
    /// Its packets.
    #[serde(flatten)]
    pub counters: SourceCounters,
}

/// Packets by what becomes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SourceCounters {
    /// All.
    pub seen_packets: u64,
    /// Those that pass.
    pub passed_packets: u64,
    /// Those that are dropped.
    pub dropped_packets: u64,
    /// Those that only pass because of shadow; part of `passed_packets`.
    pub would_drop_packets: u64,
}

impl SourceCounters {
    /// Counts one packet.
    pub fn count(&mut self, reason: Reason) {
        self.seen_packets += 1;
        self.passed_packets += u64::from(reason.passes());
        self.dropped_packets += u64::from(!reason.passes());
        self.would_drop_packets += u64::from(reason.would_drop());
    }

    /// Adds those of another source.
    pub fn add(&mut self, other: &Self) {
        self.seen_packets += other.seen_packets;
        self.passed_packets += other.passed_packets;
        self.dropped_packets += other.dropped_packets;
        self.would_drop_packets += other.would_drop_packets;
    }
}
