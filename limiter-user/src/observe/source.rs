//! What `check` and `top` say of sources.

use serde::{Deserialize, Serialize};

use super::{
    Verdicts,
    live::{Row, Sample, per_second},
};
use crate::config::lists::DENY;

/// `check --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// Name of the interface.
    pub interface: String,
    /// The source.
    pub source: String,
    /// Whether the interface drops nothing.
    pub shadow: bool,
    /// The list that decides about it before any limit.
    pub listed: Option<&'static str>,
    /// The other lists that limits match it by.
    pub tiers: Vec<String>,
    /// For each of these lists, the prefix by which it decides about the source.
    pub lists: Vec<OnList>,
    /// What each limit says.
    pub limits: Vec<CheckedLimit>,
}

/// The prefix by which a list decides about a source, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OnList {
    /// Name of the list.
    pub list: String,
    /// The prefix.
    pub prefix: String,
    /// `file`, `command` or `fleet`; null if an earlier version has put it there.
    pub by: Option<&'static str>,
    /// The file it comes from; null if another source has put it there.
    pub file: Option<String>,
    /// The host of the fleet that has added it; null if no fleet has, or its agent does not answer.
    pub host: Option<String>,
    /// Since when, RFC 3339; of a prefix from the file, when the file was loaded. Null if it is not known.
    pub since: Option<String>,
    /// Packets that the deny list dropped of this prefix; null of other lists. Exact up to 1,024, an estimate after that.
    pub dropped_packets: Option<u64>,
}

/// One limit's view of a source.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckedLimit {
    /// Name of the limit.
    pub name: String,
    /// What the bucket is kept for: an address, a prefix, with a port perhaps.
    pub bucket: String,
    /// Whether it has a bucket; one that has none has a full one.
    pub tracked: bool,
    /// What is left, in packets or bytes.
    pub tokens: f64,
    /// What a full bucket holds.
    pub burst_tokens: u64,
    /// Until the next packet passes (the shortest frame, where bytes are counted); null for a denied source, because waiting does
    /// not help.
    pub retry_after_seconds: Option<f64>,
    /// Packets that passed.
    pub passed_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Packets that only passed because of shadow; part of `passed_packets`.
    pub would_drop_packets: u64,
}

/// `top --once --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Top {
    /// Name of the interface.
    pub interface: String,
    /// Seconds between the two readings that rates are of; null, as the rates, if there is one reading only.
    pub interval_seconds: Option<f64>,
    /// All packets of the interface by verdict; what was dropped is the sum of all lines below.
    #[serde(flatten)]
    pub verdicts: Verdicts,
    /// Most dropped first, then most passed.
    pub sources: Vec<TopSource>,
    /// Prefixes on the deny list with drops, most dropped first.
    pub denied: Vec<TopDenied>,
    /// What was dropped of no source and prefix above.
    pub other_drops: Vec<TopDrops>,
}

/// A prefix on the deny list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopDenied {
    /// The prefix.
    pub prefix: String,
    /// Packets that the deny list dropped of it. Exact up to 1,024, an estimate after that.
    pub dropped_packets: u64,
    /// The same a second.
    pub dropped_packets_per_second: Option<f64>,
}

/// Drops that are counted for no single source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopDrops {
    /// Why they were dropped; `limit`: sources that are not shown, or are forgotten; `deny`: prefixes that are not shown, or
    /// are not on the list any more.
    pub reason: String,
    /// Packets.
    pub dropped_packets: u64,
    /// The same a second.
    pub dropped_packets_per_second: Option<f64>,
}

/// One line of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopSource {
    /// An address, or a prefix, with a port perhaps.
    pub source: String,
    /// The limit whose bucket it is.
    pub limit: String,
    /// Packets that passed.
    pub passed_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Packets that only passed because of shadow; part of `passed_packets`.
    pub would_drop_packets: u64,
    /// What is left, in packets or bytes.
    pub tokens: f64,
    /// The list that decides about it before any limit.
    pub listed: Option<String>,
    /// Packets that passed, a second.
    pub passed_packets_per_second: Option<f64>,
    /// Packets that were dropped, a second; null of a denied source: its drops are those of its prefix.
    pub dropped_packets_per_second: Option<f64>,
    /// Packets that only passed because of shadow, a second.
    pub would_drop_packets_per_second: Option<f64>,
}

impl Top {
    /// The rows of a sample.
    #[must_use]
    pub fn new(sample: &Sample) -> Self {
        let rate = |count| sample.elapsed.map(|elapsed| per_second(count, elapsed));
        let mut top = Self {
            interface: sample.interface.name.clone(),
            interval_seconds: sample.elapsed.map(|elapsed| elapsed.as_secs_f64()),
            verdicts: sample.interface.verdicts,
            sources: Vec::new(),
            denied: Vec::new(),
            other_drops: Vec::new(),
        };
        for row in &sample.rows {
            let dropped_packets = row.activity.over;
            let dropped_packets_per_second = rate(row.activity.over_since);
            match (row.reason, row.network) {
                (None, _) => top.sources.push(TopSource::new(row, rate)),
                (Some(_), Some(_)) => top.denied.push(TopDenied {
                    prefix: row.source.clone(),
                    dropped_packets,
                    dropped_packets_per_second,
                }),
                (Some(reason), None) => top.other_drops.push(TopDrops {
                    reason: reason.name().to_owned(),
                    dropped_packets,
                    dropped_packets_per_second,
                }),
            }
        }
        top
    }
}

impl TopSource {
    fn new(row: &Row, rate: impl Fn(u64) -> Option<f64>) -> Self {
        let activity = &row.activity;
        let (dropped, would_drop) = activity.split(activity.over);
        let (dropped_since, would_drop_since) = activity.split(activity.over_since);
        Self {
            source: row.source.clone(),
            limit: row.limit.clone(),
            passed_packets: activity.passed,
            dropped_packets: dropped,
            would_drop_packets: would_drop,
            tokens: activity.tokens,
            listed: row.listed.map(str::to_owned),
            passed_packets_per_second: rate(activity.passed_since),
            dropped_packets_per_second: rate(dropped_since).filter(|_| row.listed != Some(DENY)),
            would_drop_packets_per_second: rate(would_drop_since),
        }
    }
}
