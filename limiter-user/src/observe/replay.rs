//! The limits' decisions about a capture.

use limiter_common::policy::verdict::Reason;

use super::{Count, Drops, Verdicts};

/// The result of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The engine that decided: `kernel` or `model`.
    pub engine: &'static str,
    /// All packets by verdict; `seen` is the whole capture.
    pub verdicts: Verdicts,
    /// Packets that are not IP; part of `passed`.
    pub not_ip: Count,
    /// Packets that the host sent, according to the capture; part of `passed`. Limits do not apply to them.
    pub outgoing: Count,
    /// Seconds from the first packet to the last.
    pub seconds: f64,
    /// Dropped packets by reason.
    pub drops: Drops,
    /// The limits.
    pub limits: Vec<ReplayedLimit>,
    /// Sources, most dropped first, then most passed.
    pub sources: Vec<ReplayedSource>,
    /// Packets of sources that did not fit into memory, together. Earlier packets of a source in `sources` may be
    /// counted here.
    pub other_sources: Option<SourceCounters>,
    /// Truncated packets: the capture has too little of them for the limits. Missing fields are charged as if they
    /// matched. A packet without its IP header counts as malformed.
    pub cut_short_packets: u64,
}

/// One limit.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedLimit {
    /// Name of the limit.
    pub name: String,
    /// The rate, in canonical form.
    pub rate: String,
    /// The burst, as written or derived from the rate.
    pub burst: String,
    /// The key, as written.
    pub key: String,
    /// Packets that passed, including `would_drop`.
    pub passed: Count,
    /// Packets that were dropped.
    pub dropped: Count,
    /// Packets that would have been dropped without shadow.
    pub would_drop: Count,
}

/// One source.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedSource {
    /// An address, or a prefix.
    pub source: String,
    /// Packets of the source.
    pub counters: SourceCounters,
}

/// Packets of a source by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceCounters {
    /// All packets.
    pub seen_packets: u64,
    /// Packets that passed.
    pub passed_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Packets that passed only because of shadow; part of `passed_packets`.
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

    /// Adds the packets of another source.
    pub fn add(&mut self, other: &Self) {
        self.seen_packets += other.seen_packets;
        self.passed_packets += other.passed_packets;
        self.dropped_packets += other.dropped_packets;
        self.would_drop_packets += other.would_drop_packets;
    }
}
