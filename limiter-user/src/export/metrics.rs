//! The metrics. No label depends on received packets: sources are counted and ranked, but never named.

use std::time::UNIX_EPOCH;

use limiter_fleet::status::{Fleet, SharedLimit};

use super::{
    collection::Reading,
    format::{
        Format,
        Kind::{Counter, Gauge, Info},
        Labels, Metric, Samples,
    },
};
use crate::observe::{Count, Interface, Limit, List, reasons::ByReason};

/// Number of ranks of `limiter_top_dropped_packets`.
const RANKS: usize = 10;

const OF_HOST: &[Metric<Reading>] = &[
    Metric::new(
        Info,
        "limiter_build",
        "Version of the exporter, as a label.",
        |_| vec![info([("version", env!("CARGO_PKG_VERSION"))])],
    ),
    Metric::new(
        Gauge,
        "limiter_unreadable_attachments",
        "Number of attachments that cannot be read. limiter status prints the reasons.",
        |it| one(it.snapshot.unreadable.len() as u64),
    ),
    Metric::new(
        Gauge,
        "limiter_collection_duration_seconds",
        "Seconds that reading the kernel took. A reading is used for one second.",
        |it| real(it.took.as_secs_f64()),
    ),
    Metric::new(
        Gauge,
        "limiter_top_dropped_packets",
        "Packets dropped of each of the 10 most dropped sources (rank 1 to 10) since the source entered the table. \
         The web page and limiter top show the addresses.",
        top,
    ),
];

/// The metrics of each interface. Its name is added to the labels.
const OF_INTERFACE: &[Metric<Interface>] = &[
    Metric::new(
        Info,
        "limiter_attached",
        "The attachment of an interface: its program and XDP mode (native or generic), as labels.",
        |it| {
            let program = it.program_id.to_string();
            vec![info([("mode", &*it.mode), ("program_id", &program)])]
        },
    ),
    Metric::new(
        Gauge,
        "limiter_attached_timestamp_seconds",
        "Time of the attachment, in seconds since 1970. The counters were 0 then.",
        |it| {
            let time = humantime::parse_rfc3339_weak(&it.attached_at).ok();
            let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            since.map_or_else(Samples::new, |since| one(since.as_secs()))
        },
    ),
    Metric::new(
        Gauge,
        "limiter_fallback",
        "1 if the program runs in generic mode because native mode failed, otherwise 0.",
        |it| one(it.fallback.is_some()),
    ),
    Metric::new(
        Gauge,
        "limiter_shadow",
        "1 if the whole interface is in shadow, so that nothing is dropped; otherwise 0.",
        |it| one(it.shadow),
    ),
    Metric::new(
        Gauge,
        "limiter_memory_bytes",
        "Kernel memory of all maps of an attachment, in bytes.",
        |it| one(it.sources.memory_bytes),
    ),
    Metric::new(
        Counter,
        "limiter_events_lost",
        "Drops that limiter watch could not report, because there were too many at once.",
        |it| one(it.events_lost),
    ),
    Metric::new(
        Info,
        "limiter_limit",
        "A configured limit, with its settings as labels.",
        |it| {
            let limits = it.limits.iter().map(|limit| {
                info([
                    ("limit", &*limit.name),
                    ("rate", &*limit.rate),
                    ("burst", &*limit.burst),
                    ("key", &*limit.key),
                    ("algorithm", &*limit.algorithm),
                    ("shadow", if limit.shadow { "true" } else { "false" }),
                ])
            });
            limits.collect()
        },
    ),
    Metric::new(
        Counter,
        "limiter_packets",
        "Packets by the verdict of a limit: pass, drop, or would_drop (passed only because of shadow). \
             A packet counts for each limit that matches it.",
        |it| of_limits(it, |count| count.packets),
    ),
    Metric::new(
        Counter,
        "limiter_bytes",
        "Bytes of the packets in limiter_packets, as whole frames.",
        |it| of_limits(it, |count| count.bytes),
    ),
    Metric::new(
        Counter,
        "limiter_interface_packets",
        "All incoming packets by verdict, each once: pass, drop, or would_drop (passed only because of shadow).",
        |it| {
            let it = it.verdicts;
            verdicts(|count| count.packets, it.passed, it.dropped, it.would_drop).into()
        },
    ),
    Metric::new(
        Counter,
        "limiter_interface_bytes",
        "Bytes of the packets in limiter_interface_packets, as whole frames.",
        |it| {
            let it = it.verdicts;
            verdicts(|count| count.bytes, it.passed, it.dropped, it.would_drop).into()
        },
    ),
    Metric::new(
        Counter,
        "limiter_drops",
        "Dropped packets by reason: limit (over the limit), deny (on the deny list), new_source (new sources came too \
             fast, or the table had no room), malformed, contended (all updates of the bucket failed).",
        |it| by_reason(&it.drops),
    ),
    Metric::new(
        Counter,
        "limiter_passes",
        "Packets that passed uncharged, by reason: not_ip, malformed_passed (malformed = pass), allowed (on the \
             allow list), unlimited (matched by no limit), established (of a connection of a local socket).",
        |it| by_reason(&it.passes),
    ),
    Metric::new(
        Gauge,
        "limiter_list_prefixes",
        "Number of prefixes on a list.",
        |it| of_lists(it, |list| list.prefixes),
    ),
    Metric::new(
        Counter,
        "limiter_list_packets",
        "Packets from sources on a list, if the list decided about them.",
        |it| of_lists(it, |list| list.hits.packets),
    ),
    Metric::new(
        Counter,
        "limiter_list_bytes",
        "Bytes of the packets in limiter_list_packets, as whole frames.",
        |it| of_lists(it, |list| list.hits.bytes),
    ),
    Metric::new(
        Gauge,
        "limiter_fleet_hosts",
        "Number of hosts that share the limits, including this host, at the store's last answer.",
        |it| fleet(it, |fleet| one(fleet.hosts)),
    ),
    Metric::new(
        Gauge,
        "limiter_fleet_store_up",
        "1 if an agent runs and the store answers it, otherwise 0. At 0, each host limits on its own.",
        |it| fleet(it, |fleet| one(fleet.is_shared())),
    ),
    Metric::new(
        Gauge,
        "limiter_fleet_staleness_seconds",
        "Maximum age of what this host knows of the other hosts, in seconds. Absent before the first answer.",
        |it| {
            fleet(it, |fleet| {
                fleet.staleness_seconds.map_or_else(Samples::new, real)
            })
        },
    ),
    Metric::new(
        Gauge,
        "limiter_fleet_conflicts",
        "Number of limits that differ between hosts of the fleet, or are missing here. limiter status names them.",
        |it| fleet(it, |fleet| one(fleet.conflicts())),
    ),
    Metric::new(
        Gauge,
        "limiter_fleet_overshoot_packets",
        "Maximum packets of one source that all hosts together pass beyond the limit, at the present staleness.",
        |it| {
            fleet(it, |fleet| {
                let limits = fleet.limits.iter();
                let beyond =
                    |limit: &SharedLimit| Some(by("limit", &limit.name, limit.overshoot_packets?));
                limits.filter_map(beyond).collect()
            })
        },
    ),
    Metric::new(
        Gauge,
        "limiter_sources",
        "Number of sources in the table.",
        |it| one(it.sources.tracked),
    ),
    Metric::new(
        Gauge,
        "limiter_sources_entries",
        "Used entries of the table. A source takes two if its key has more than 64 bits of an IPv6 address.",
        |it| one(it.sources.entries),
    ),
    Metric::new(
        Gauge,
        "limiter_sources_capacity",
        "Entries of the table, used and free.",
        |it| one(it.sources.capacity),
    ),
    Metric::new(
        Counter,
        "limiter_new_sources",
        "Sources that entered the table.",
        |it| one(it.sources.added),
    ),
    Metric::new(
        Counter,
        "limiter_forgotten_sources",
        "Sources that left the table: their bucket was full, and another source took the entry.",
        |it| one(it.sources.removed),
    ),
];

/// Writes all metrics.
pub fn text(reading: &Reading, format: Format) -> String {
    let mut text = String::new();
    for metric in OF_HOST {
        metric.write(&mut text, format, (metric.samples)(reading));
    }
    for metric in OF_INTERFACE {
        let interfaces = reading.snapshot.status.interfaces.iter();
        let all = interfaces.flat_map(|it| named(it, (metric.samples)(it)));
        metric.write(&mut text, format, all.collect());
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

/// The samples of an interface, with its name.
fn named(interface: &Interface, samples: Samples) -> impl Iterator<Item = (Labels, String)> {
    samples.into_iter().map(|(mut labels, value)| {
        labels.insert(0, ("interface", interface.name.clone()));
        (labels, value)
    })
}

/// A single sample without labels.
fn one(value: impl Into<u64>) -> Samples {
    let value: u64 = value.into();
    vec![(Labels::new(), value.to_string())]
}

/// A single measurement without labels.
fn real(value: f64) -> Samples {
    vec![(Labels::new(), value.to_string())]
}

/// A sample with one label.
fn by(label: &'static str, name: &str, value: u64) -> (Labels, String) {
    (vec![(label, name.to_owned())], value.to_string())
}

/// A sample with the value 1 and its content in the labels.
fn info<const N: usize>(labels: [(&'static str, &str); N]) -> (Labels, String) {
    let labels = labels.map(|(label, value)| (label, value.to_owned()));
    (labels.into(), "1".to_owned())
}

/// Packets or bytes by verdict. Each packet has exactly one verdict.
fn verdicts(
    unit: fn(Count) -> u64,
    passed: Count,
    dropped: Count,
    would_drop: Count,
) -> [(Labels, String); 3] {
    let would_drop = unit(would_drop);
    [
        ("pass", unit(passed).wrapping_sub(would_drop)),
        ("drop", unit(dropped)),
        ("would_drop", would_drop),
    ]
    .map(|(verdict, value)| by("verdict", verdict, value))
}

fn of_limits(interface: &Interface, unit: fn(Count) -> u64) -> Samples {
    let of = |limit: &Limit| {
        let verdicts = verdicts(unit, limit.passed, limit.dropped, limit.would_drop);
        let name = ("limit", limit.name.clone());
        verdicts.map(|(mut labels, value)| {
            labels.insert(0, name.clone());
            (labels, value)
        })
    };
    interface.limits.iter().flat_map(of).collect()
}

fn of_lists(interface: &Interface, value: fn(&List) -> u64) -> Samples {
    let lists = interface.lists.iter();
    lists
        .map(|list| by("list", &list.name, value(list)))
        .collect()
}

fn by_reason<const DROPS: bool>(reasons: &ByReason<DROPS>) -> Samples {
    let counts = reasons.iter();
    counts
        .map(|(reason, count)| by("reason", reason.name(), count.packets))
        .collect()
}

/// The samples of an interface's fleet. None if the interface belongs to no fleet.
fn fleet(interface: &Interface, samples: fn(&Fleet) -> Samples) -> Samples {
    interface.fleet.as_ref().map_or_else(Samples::new, samples)
}

fn top(reading: &Reading) -> Samples {
    let snapshot = &reading.snapshot;
    let interfaces = snapshot.status.interfaces.iter().zip(&snapshot.tops);
    let ranked = interfaces.flat_map(|(interface, top)| {
        let dropped = top.sources.iter().map(|source| source.dropped_packets);
        let ranked = (1..=RANKS).zip(dropped.filter(|packets| *packets > 0));
        let ranked = ranked.map(|(rank, packets)| by("rank", &rank.to_string(), packets));
        named(interface, ranked.collect())
    });
    ranked.collect()
}
