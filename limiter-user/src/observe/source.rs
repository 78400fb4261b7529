//! The JSON output of `check` and `top`.

use ipnet::IpNet;
use limiter_common::table::key::SourceKey;
use serde::{Deserialize, Serialize};

use super::{Ban, Verdicts};

/// The output of `check --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// Name of the interface.
    pub interface: String,
    /// The source.
    pub source: String,
    /// True if the interface drops nothing.
    pub shadow: bool,
    /// The list that decides about the source before any limit, or `ban`.
    pub listed: Option<&'static str>,
    /// The source's tiers, which limits use in their match.
    pub tiers: Vec<String>,
    /// The ban that drops the source's packets; null if there is none.
    pub ban: Option<Ban>,
    /// The prefix by which each of these lists decides about the source.
    pub lists: Vec<OnList>,
    /// The state of the source under each limit.
    pub limits: Vec<CheckedLimit>,
    /// Limits whose buckets cannot be found without more options. They are not in `limits`.
    pub missing: Vec<MissingOptions>,
    /// The packet that `--protocol` and other options describe; null without `--protocol`.
    pub packet: Option<ExplainedPacket>,
}

/// The fate of one packet, decided by the program's policy with the lists and buckets in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainedPacket {
    /// The packet in words.
    pub packet: String,
    /// True if the same packet of a connection of the host would be exempt.
    pub exempts_established: bool,
    /// The limits that match the packet, in the order in which they are checked.
    pub limits: Vec<String>,
    /// The limits that do not match it.
    pub other_limits: Vec<String>,
    /// Options without which the packet's limits or buckets are not known. If there are any, `passes` is null.
    pub missing: Vec<&'static str>,
    /// True if the packet would pass now.
    pub passes: Option<bool>,
    /// The reason without shadow, as in `drops` and `passes` of `status`.
    pub reason: Option<String>,
    /// The reason in words.
    #[serde(skip)]
    pub text: Option<String>,
    /// The limit that refuses the packet; null if none does.
    pub limit: Option<String>,
    /// True if a limit has no bucket of the source yet: the packet passes only while the limit of new sources has a
    /// token.
    pub new_source: bool,
}

/// A limit whose key has more than the source.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MissingOptions {
    /// Name of the limit.
    pub limit: String,
    /// The key of the limit.
    pub key: String,
    /// Options to give: `--to`, `--port`, `--from-port`, `--protocol`.
    pub options: Vec<&'static str>,
}

/// The prefix by which a list decides about a source, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OnList {
    /// Name of the list.
    pub list: String,
    /// The prefix.
    pub prefix: String,
    /// `fleet`; null if the prefix is this host's own.
    pub by: Option<&'static str>,
    /// The host of the fleet that added the prefix; null if no fleet added it, or the fleet's agent does not answer.
    pub host: Option<String>,
    /// When a host of the fleet added the prefix, RFC 3339. Null if `host` is.
    pub since: Option<String>,
}

/// One limit's view of a source.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckedLimit {
    /// Name of the limit.
    pub name: String,
    /// The bucket's key: an address or a prefix, with a port if the limit's key has one. `-> 192.0.2.10`: a
    /// destination; `192.0.2.7 -> 192.0.2.10`: a pair; `tcp 192.0.2.7:4000 -> 192.0.2.10:443`: a flow;
    /// `pair #0123456789abcdef`, `flow #0123456789abcdef`: of IPv6, which are hashed.
    pub bucket: String,
    /// True if the source has a bucket. A source without a bucket counts as one with a full bucket.
    pub tracked: bool,
    /// Tokens left, in packets or bytes.
    pub tokens: f64,
    /// Tokens in a full bucket, at the part of the rate in force.
    pub burst_tokens: u64,
    /// Seconds until the next packet passes (the shortest frame if the limit counts bytes); null for a denied or banned
    /// source, because waiting does not help.
    pub retry_after_seconds: Option<f64>,
    /// Seconds for which the limit still holds the source (`hold`); null if it does not.
    pub held_seconds: Option<f64>,
    /// Packets that passed.
    pub passed_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Packets that passed only because of shadow; part of `passed_packets`.
    pub would_drop_packets: u64,
    /// The bound on open connections, and those of the source: to the port that was asked about, if the match or the key has
    /// one. Null: no bound.
    pub connections: Option<OpenOfSource>,
    /// The refusal of a source without a bucket; null if there was none in the last seconds.
    pub refused: Option<Refused>,
}

/// Open connections of a source under one limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenOfSource {
    /// The most that the limit allows.
    pub most: u64,
    /// Open connections.
    pub open: u64,
}

/// A new source was refused.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Refused {
    /// Seconds since then, in steps of 0.067 s.
    pub seconds_ago: f64,
    /// Seconds for which a packet of the source gets a second chance.
    pub seconds_left: f64,
}

/// The output of `top --once --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Top {
    /// Name of the interface.
    pub interface: String,
    /// Seconds between the two scans that the rates are computed from. With a single scan, this and the rates are
    /// null.
    pub interval_seconds: Option<f64>,
    /// All packets of the interface by verdict. Dropped packets are the sum of all lines below.
    #[serde(flatten)]
    pub verdicts: Verdicts,
    /// Packets per second that limits delayed; null if no limit has `max_delay`.
    pub delayed_packets_per_second: Option<f64>,
    /// A bound of the delays of 99 % of them, in seconds: 131 µs or its doubles up to 2.1 s. Null: none is known.
    pub delayed_below_seconds: Option<f64>,
    /// Sources, most dropped first, then most passed.
    pub sources: Vec<TopSource>,
    /// Drops that are not counted in a source above.
    pub other_drops: Vec<TopDrops>,
}

/// Drops that are not attributed to a single source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopDrops {
    /// Reason of the drops. `limit`: sources that are not shown or have been removed. `ban`: `limiter bans` has
    /// the drops of each ban.
    pub reason: String,
    /// Dropped packets.
    pub dropped_packets: u64,
    /// Dropped packets per second.
    pub dropped_packets_per_second: Option<f64>,
}

/// A source in `top`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopSource {
    /// The bucket's key: an address or a prefix, with a port if the limit's key has one. `-> 192.0.2.10`: a
    /// destination; `192.0.2.7 -> 192.0.2.10`: a pair; `tcp 192.0.2.7:4000 -> 192.0.2.10:443`: a flow;
    /// `pair #0123456789abcdef`, `flow #0123456789abcdef`: of IPv6, which are hashed.
    pub source: String,
    /// The limit that the bucket belongs to.
    pub limit: String,
    /// The country of the source, as in CN, by the databases that lists of the configuration name.
    pub country: Option<String>,
    /// The number of the source's autonomous system, by these databases.
    pub autonomous_system: Option<u32>,
    /// Packets that passed.
    pub passed_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Packets that passed only because of shadow; part of `passed_packets`.
    pub would_drop_packets: u64,
    /// Tokens left, in packets or bytes.
    pub tokens: f64,
    /// Seconds for which the limit still holds the source (`hold`); null if it does not.
    pub held_seconds: Option<f64>,
    /// Open connections of the bucket's key; null if its limit does not bound them.
    pub open_connections: Option<u64>,
    /// The list that decides about the source before any limit, or `ban`.
    pub listed: Option<String>,
    /// Packets per second that passed.
    pub passed_packets_per_second: Option<f64>,
    /// Packets per second that were dropped; null for a denied or banned source: its drops are counted
    /// for the list or the ban.
    pub dropped_packets_per_second: Option<f64>,
    /// Packets per second that passed only because of shadow.
    pub would_drop_packets_per_second: Option<f64>,
    /// True if packets over the limit pass because of shadow.
    #[serde(skip)]
    pub shadow: bool,
    /// Packets that were dropped since the last scan.
    #[serde(skip)]
    pub dropped_since: u64,
    /// The key of the bucket.
    #[serde(skip)]
    pub key: SourceKey,
    /// The sources that share the bucket; none if the key does not say.
    #[serde(skip)]
    pub network: Option<IpNet>,
}
