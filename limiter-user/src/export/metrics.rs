//! The metrics. No label depends on received packets: sources are counted and ranked, but never named.

use std::time::UNIX_EPOCH;

use limiter_common::policy::verdict;
use limiter_feed::Reason;
use limiter_fleet::status::Fleet;
use prometheus_client::{metrics::MetricType, registry::Unit};

use super::{
    collection::Reading,
    samples::{Sample, Value, labelled, optional, sample, single},
};
use crate::observe::{
    Count, Drops, Feed, Interface, Limit, List, Passes, reasons::ByReason, source::Top,
};

/// Number of ranks of `limiter_top_dropped_packets`.
const RANKS: usize = 10;

/// The labels of all metrics. No other label of the exporter's user may have these names.
pub const LABELS: [&str; 17] = [
    "algorithm",
    "burst",
    "feed",
    "interface",
    "key",
    "le",
    "limit",
    "list",
    "mode",
    "origin",
    "program_id",
    "rank",
    "rate",
    "reason",
    "shadow",
    "verdict",
    "version",
];

/// A metric. Without samples, it is left out.
pub struct Metric {
    /// The name in queries.
    pub name: &'static str,
    /// The kind. A counter starts at 0 with a new attachment.
    pub kind: MetricType,
    help: &'static str,
    /// The samples.
    pub subject: Subject,
}

impl Metric {
    /// The description.
    pub fn help(&self) -> String {
        let help = self.help.trim_start();
        help.replace("{drops}", &named(Drops::reasons()))
            .replace("{passes}", &named(Passes::reasons()))
    }

    /// The name without its endings, which the encoder appends, and the unit.
    pub fn parts(&self) -> (&'static str, Option<Unit>) {
        let ending = match self.kind {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            _ => "",
        };
        let name = self.name.strip_suffix(ending).unwrap_or(self.name);
        let units = [
            ("_bytes", Unit::Bytes),
            ("_ratio", Unit::Other("ratio".to_owned())),
            ("_seconds", Unit::Seconds),
        ];
        for (ending, unit) in units {
            if let Some(name) = name.strip_suffix(ending) {
                return (name, Some(unit));
            }
        }
        (name, None)
    }
}

/// The reasons with their texts.
fn named(reasons: impl Iterator<Item = verdict::Reason>) -> String {
    let reasons = reasons.map(|reason| match (reason.name(), reason.text()) {
        (name, text) if name == text => name.to_owned(),
        (name, text) => format!("{name} ({text})"),
    });
    reasons.collect::<Vec<_>>().join(", ")
}

/// The samples of a metric: of the host, or of each interface, whose name becomes their first label.
pub enum Subject {
    /// Of the host.
    Host(fn(&Reading) -> Vec<Sample>),
    /// Of an interface.
    Interface(fn(&Interface) -> Vec<Sample>),
    /// Of an interface's sources.
    Top(fn(&Top) -> Vec<Sample>),
    /// Of an interface's fleet.
    Fleet(fn(&Fleet) -> Vec<Sample>),
}

/// The table of metrics. A line has description, kind, name and samples.
macro_rules! metrics {
    ($($(#[doc = $help:literal])+ $kind:ident $name:ident = $subject:ident($value:expr);)+) => {
        /// All metrics.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: stringify!($name),
            kind: MetricType::$kind,
            help: concat!($($help),+),
            subject: Subject::$subject($value),
        },)+];
    };
}

metrics! {
    /// Version of the exporter, as a label.
    Info limiter_build_info = Host(|_| vec![sample(&[("version", env!("CARGO_PKG_VERSION"))], 1_u64)]);
    /// Number of attachments that cannot be read. limiter status prints the reasons.
    Gauge limiter_unreadable_attachments =
        Host(|reading| single(reading.snapshot.unreadable.len()));
    /// Seconds that reading the kernel took. A reading is used for one second.
    Gauge limiter_collection_duration_seconds = Host(|reading| single(reading.took.as_secs_f64()));
    /// Packets dropped of each of the 10 most dropped sources (rank 1 to 10) since the source entered the table. The
    /// web page and limiter top show the addresses.
    Gauge limiter_top_dropped_packets = Top(ranks);
    /// The attachment of an interface: its program and XDP mode (native or generic), as labels.
    Info limiter_attached_info = Interface(attached);
    /// Time of the attachment, in seconds since 1970. The counters were 0 then.
    Gauge limiter_attached_timestamp_seconds =
        Interface(|interface| optional(attached_at(interface)));
    /// 1 if the program runs in generic mode because native mode failed, otherwise 0.
    Gauge limiter_fallback = Interface(|interface| single(interface.fallback.is_some()));
    /// 1 if the whole interface is in shadow, so that nothing is dropped; otherwise 0.
    Gauge limiter_shadow = Interface(|interface| single(interface.shadow));
    /// Kernel memory of all maps of an attachment, in bytes.
    Gauge limiter_memory_bytes = Interface(|interface| single(interface.sources.memory_bytes));
    /// Drops that limiter watch could not report, because there were too many at once.
    Counter limiter_events_lost_total = Interface(|interface| single(interface.events_lost));
    /// A configured limit, with its settings as labels.
    Info limiter_limit_info = Interface(limits);
    /// Part of the configured rate and burst of an adaptive limit that is in force, up to 1. Absent while limiter adapt
    /// does not run.
    Gauge limiter_rate_ratio =
        Interface(|interface| by_limit(interface, |limit| limit.adapted?.then_some(limit.scale)));
    /// Number of sources that a limit with hold refuses until their hold ends.
    Gauge limiter_held_sources =
        Interface(|interface| by_limit(interface, |limit| limit.held_sources));
    /// Number of open connections that count for a limit with connections.
    Gauge limiter_open_connections = Interface(|interface| {
        by_limit(interface, |limit| limit.connections.map(|connections| connections.open))
    });
    /// Number of sources, or other keys, that have as many open connections as their limit allows.
    Gauge limiter_sources_at_bound = Interface(|interface| {
        by_limit(interface, |limit| limit.connections.map(|connections| connections.keys_at_bound))
    });
    /// Packets by the verdict of a limit: pass, drop, or would_drop (passed only because of shadow). A packet counts
    /// for each limit that matches it.
    Counter limiter_packets_total =
        Interface(|interface| limit_verdicts(interface, |count| count.packets));
    /// Bytes of the packets in limiter_packets_total, as whole frames.
    Counter limiter_bytes_total =
        Interface(|interface| limit_verdicts(interface, |count| count.bytes));
    /// All incoming packets by verdict, each once: pass, drop, or would_drop (passed only because of shadow).
    Counter limiter_interface_packets_total =
        Interface(|interface| all_verdicts(interface, |count| count.packets));
    /// Bytes of the packets in limiter_interface_packets_total, as whole frames.
    Counter limiter_interface_bytes_total =
        Interface(|interface| all_verdicts(interface, |count| count.bytes));
    /// Dropped packets by reason: {drops}.
    Counter limiter_drops_total = Interface(|interface| by_reason(&interface.drops));
    /// Packets that passed uncharged, by reason: {passes}.
    Counter limiter_passes_total = Interface(|interface| by_reason(&interface.passes));
    /// Number of prefixes on a list.
    Gauge limiter_list_prefixes = Interface(|interface| by_list(interface, |list| list.prefixes));
    /// Packets from sources on a list, if the list decided about them.
    Counter limiter_list_packets_total =
        Interface(|interface| by_list(interface, |list| list.hits.packets));
    /// Bytes of the packets in limiter_list_packets_total, as whole frames.
    Counter limiter_list_bytes_total =
        Interface(|interface| by_list(interface, |list| list.hits.bytes));
    /// 1 if the feed runs and its last round had no error.
    Gauge limiter_feed_up = Host(|reading| by_feed(reading, |feed| Some(is_up(feed))));
    /// Time of the feed's last round without an error, since 1970.
    Gauge limiter_feed_last_success_timestamp_seconds =
        Host(|reading| by_feed(reading, |feed| feed.state.succeeded));
    /// Entries of the feed's source that are not in force, by reason.
    Gauge limiter_feed_left_out =
        Host(|reading| reading.snapshot.status.feeds.iter().flat_map(left_out).collect());
    /// Bans that the last full answer of CrowdSec lacked, and that stay until another one lacks them too.
    Gauge limiter_feed_held_back =
        Host(|reading| by_feed(reading, |feed| Some(feed.state.held_back)));
    /// Number of bans by origin: hand for those of limiter ban.
    Gauge limiter_bans = Interface(bans);
    /// Number of hosts that share the limits, including this host, at the store's last answer.
    Gauge limiter_fleet_hosts = Fleet(|fleet| single(fleet.hosts));
    /// 1 if an agent runs and the store answers it, otherwise 0. At 0, each host limits on its own.
    Gauge limiter_fleet_store_up = Fleet(|fleet| single(fleet.is_shared()));
    /// Maximum age of what this host knows of the other hosts, in seconds. Absent before the first answer.
    Gauge limiter_fleet_staleness_seconds = Fleet(|fleet| optional(fleet.staleness_seconds));
    /// Number of limits that differ between hosts of the fleet, or are missing here. limiter status names them.
    Gauge limiter_fleet_conflicts = Fleet(|fleet| single(fleet.conflicts()));
    /// Maximum packets of one source that all hosts together pass beyond the limit, at the present staleness.
    Gauge limiter_fleet_overshoot_packets = Fleet(overshoot);
    /// Number of sources in the table.
    Gauge limiter_sources = Interface(|interface| single(interface.sources.tracked));
    /// Used entries of the table. A source takes two if its key has more than 64 bits of an IPv6 address, and so does a
    /// pair or flow.
    Gauge limiter_sources_entries = Interface(|interface| single(interface.sources.entries));
    /// Entries of the table, used and free.
    Gauge limiter_sources_capacity = Interface(|interface| single(interface.sources.capacity));
    /// Sources that entered the table.
    Counter limiter_new_sources_total = Interface(|interface| single(interface.sources.added));
    /// Sources that left the table, because another source took the entry: their bucket was full, or the other source
    /// took a second chance.
    Counter limiter_forgotten_sources_total =
        Interface(|interface| single(interface.sources.removed));
    /// Second chances that new sources took: they were refused, and came again. A few of them find no room.
    Counter limiter_second_chances_total =
        Interface(|interface| single(interface.sources.second_chances));
    /// New sources that were let in because they have proven their address by a SYN cookie. A few of them find no room.
    Counter limiter_proven_sources_total = Interface(|interface| single(interface.sources.proven));
    /// Packets of new sources that were refused and came again, including those that took a second chance.
    Counter limiter_came_again_packets_total =
        Interface(|interface| single(interface.sources.came_again));
    /// Delays of packets by limits with max_delay, in seconds.
    Histogram limiter_delay_seconds = Interface(delays);
}

fn attached(interface: &Interface) -> Vec<Sample> {
    let program = interface.program_id.to_string();
    let labels = [("mode", &*interface.mode), ("program_id", &*program)];
    vec![sample(&labels, 1_u64)]
}

/// Time of the attachment, in seconds since 1970.
fn attached_at(interface: &Interface) -> Option<u64> {
    let time = humantime::parse_rfc3339_weak(&interface.attached_at).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

fn limits(interface: &Interface) -> Vec<Sample> {
    let limits = interface.limits.iter().map(|limit| {
        let labels: &[(&'static str, &str)] = &[
            ("limit", &limit.name),
            ("rate", &limit.rate),
            ("burst", &limit.burst),
            ("key", &limit.key),
            ("algorithm", &limit.algorithm),
            ("shadow", if limit.shadow { "true" } else { "false" }),
        ];
        sample(labels, 1_u64)
    });
    limits.collect()
}

/// A sample for each limit that has a value.
fn by_limit<V: Into<Value>>(interface: &Interface, value: fn(&Limit) -> Option<V>) -> Vec<Sample> {
    labelled("limit", &interface.limits, |limit| {
        Some((&limit.name, value(limit)?))
    })
}

fn by_list(interface: &Interface, value: fn(&List) -> u64) -> Vec<Sample> {
    labelled("list", &interface.lists, |list| {
        Some((&list.name, value(list)))
    })
}

fn bans(interface: &Interface) -> Vec<Sample> {
    labelled("origin", &interface.bans.by_origin, |(origin, bans)| {
        Some((origin, *bans))
    })
}

/// A sample for each feed that has a value.
fn by_feed(reading: &Reading, value: fn(&Feed) -> Option<u64>) -> Vec<Sample> {
    labelled("feed", &reading.snapshot.status.feeds, |feed| {
        Some((&feed.name, value(feed)?))
    })
}

fn is_up(feed: &Feed) -> u64 {
    u64::from(feed.running && feed.state.error.is_none())
}

/// The entries of a feed's source that are left out, for each reason.
fn left_out(feed: &Feed) -> impl Iterator<Item = Sample> {
    Reason::ALL.into_iter().map(|reason| {
        let left_out = feed.state.left_out.iter();
        let entries = left_out
            .filter(|left_out| left_out.reason == reason)
            .map(|left_out| left_out.entries);
        let labels = [("feed", &*feed.name), ("reason", reason.name())];
        sample(&labels, entries.sum::<u64>())
    })
}

/// Packets or bytes by verdict. Each packet has exactly one verdict.
fn verdicts(
    labels: &[(&'static str, &str)],
    [passed, dropped, would_drop]: [u64; 3],
) -> [Sample; 3] {
    let verdicts = [
        ("pass", passed.wrapping_sub(would_drop)),
        ("drop", dropped),
        ("would_drop", would_drop),
    ];
    verdicts.map(|(verdict, value)| sample(&[labels, &[("verdict", verdict)]].concat(), value))
}

fn all_verdicts(interface: &Interface, unit: fn(Count) -> u64) -> Vec<Sample> {
    let counts = interface.verdicts;
    let counts = [counts.passed, counts.dropped, counts.would_drop].map(unit);
    verdicts(&[], counts).into()
}

fn limit_verdicts(interface: &Interface, unit: fn(Count) -> u64) -> Vec<Sample> {
    let limits = interface.limits.iter().flat_map(|limit| {
        let counts = [limit.passed, limit.dropped, limit.would_drop].map(unit);
        verdicts(&[("limit", &limit.name)], counts)
    });
    limits.collect()
}

fn by_reason<const DROPS: bool>(reasons: &ByReason<DROPS>) -> Vec<Sample> {
    labelled("reason", reasons.iter(), |(reason, count)| {
        Some((reason.name(), count.packets))
    })
}

fn ranks(top: &Top) -> Vec<Sample> {
    let dropped = top.sources.iter().map(|source| source.dropped_packets);
    let ranked = (1..=RANKS).zip(dropped.filter(|packets| *packets > 0));
    labelled("rank", ranked, |(rank, packets)| {
        Some((rank.to_string(), packets))
    })
}

fn overshoot(fleet: &Fleet) -> Vec<Sample> {
    labelled("limit", &fleet.limits, |limit| {
        Some((&limit.name, limit.overshoot_packets?))
    })
}

fn delays(interface: &Interface) -> Vec<Sample> {
    let delays = &interface.delays;
    let mut so_far = 0;
    let below = delays
        .below
        .iter()
        .map(|below| (below.seconds, below.packets));
    let buckets = below
        .chain([(f64::INFINITY, delays.packets)])
        .map(|(bound, packets)| {
            let bucket = (bound, packets.saturating_sub(so_far));
            so_far = packets;
            bucket
        });
    single(Value::Histogram {
        buckets: buckets.collect(),
        sum: delays.seconds,
        count: delays.packets,
    })
}
