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
        "The version of limiter that exports.",
        |_| vec![told([("version", env!("CARGO_PKG_VERSION"))])],
    ),
    Metric::new(
        Gauge,
        "limiter_unreadable_attachments",
        "Attachments that cannot be read: limiter status says why.",
        |it| one(it.snapshot.unreadable.len() as u64),
    ),
    Metric::new(
        Gauge,
        "limiter_collection_duration_seconds",
        "Time that reading these figures took. They are at most a second old.",
        |it| real(it.took.as_secs_f64()),
    ),
    Metric::new(
        Gauge,
        "limiter_top_dropped_packets",
        "Packets dropped of the source that most were dropped of (rank 1), and of the next ones, since each came \
         into the table. The page and limiter top have the addresses.",
        top,
    ),
];

/// The metrics of each interface. Its name is added to the labels.
const OF_INTERFACE: &[Metric<Interface>] = &[
    Metric::new(
        Info,
        "limiter_attached",
        "What is attached to an interface, and where it runs (native, generic).",
        |it| {
            let program = it.program_id.to_string();
            vec![told([("mode", &*it.mode), ("program_id", &program)])]
        },
    ),
    Metric::new(
        Gauge,
        "limiter_attached_timestamp_seconds",
        "When it was attached, in seconds since 1970. Counters have grown since then.",
        |it| {
            let time = humantime::parse_rfc3339_weak(&it.attached_at).ok();
            let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            since.map_or_else(Samples::new, |since| one(since.as_secs()))
        },
    ),
    Metric::new(
        Gauge,
        "limiter_fallback",
        "1 where the program runs in generic mode because native mode was not to be had, else 0.",
        |it| one(it.fallback.is_some()),
    ),
    Metric::new(
        Gauge,
        "limiter_shadow",
        "1 where nothing is dropped on the whole interface, else 0.",
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
        "Drops that limiter watch was to be told of and was not, because there were too many at once.",
        |it| one(it.events_lost),
    ),
    Metric::new(
        Info,
        "limiter_limit",
        "A limit as it is configured.",
        |it| {
            let limits = it.limits.iter().map(|limit| {
                told([
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
        "Packets that a limit decided about: pass, drop, or would_drop, which passed because of shadow. \
             A packet that several limits match counts for each of them.",
        |it| of_limits(it, |count| count.packets),
    ),
    Metric::new(
        Counter,
        "limiter_bytes",
        "Bytes of the same packets, whole frames.",
        |it| of_limits(it, |count| count.bytes),
    ),
    Metric::new(
        Counter,
        "limiter_interface_packets",
        "All packets that came in, each once: pass, drop, or would_drop, which passed because of shadow.",
        |it| {
            let it = it.verdicts;
            verdicts(|count| count.packets, it.passed, it.dropped, it.would_drop).into()
        },
    ),
    Metric::new(
        Counter,
        "limiter_interface_bytes",
        "Bytes of the same packets, whole frames.",
        |it| {
            let it = it.verdicts;
            verdicts(|count| count.bytes, it.passed, it.dropped, it.would_drop).into()
        },
    ),
    Metric::new(
        Counter,
        "limiter_drops",
        "Dropped packets: over a limit, on the deny list, new_source (one new source too many, or no room for it), \
             malformed, contended (lost the race for its bucket too often).",
        |it| by_reason(&it.drops),
    ),
    Metric::new(
        Counter,
        "limiter_passes",
        "Packets that passed without being charged: not IP, on the allow list, matched by no limit, or of an \
             established connection.",
        |it| by_reason(&it.passes),
    ),
    Metric::new(
        Gauge,
        "limiter_list_prefixes",
        "Prefixes on a list.",
        |it| of_lists(it, |list| list.prefixes),
    ),
    Metric::new(
        Counter,
        "limiter_list_packets",
        "Packets whose source a list decided about.",
        |it| of_lists(it, |list| list.hits.packets),
    ),
    Metric::new(
        Counter,
        "limiter_list_bytes",
        "Bytes of the same packets, whole frames.",
        |it| of_lists(it, |list| list.hits.bytes),
    ),
    Metric::new(
        Gauge,
        "limiter_fleet_hosts",
        "Hosts that share the limits, this one among them, when the store was last heard of.",
        |it| fleet(it, |fleet| one(fleet.hosts)),
    ),
    Metric::new(
        Gauge,
        "limiter_fleet_store_up",
        "1 where an agent runs and the store answers it, else 0: then the limits hold on each host by itself.",
        |it| fleet(it, |fleet| one(fleet.is_shared())),
    ),
    Metric::new(
        Gauge,
        "limiter_fleet_staleness_seconds",
        "How old what is known of the other hosts is, at most. Nothing where nothing is known.",
        |it| {
            fleet(it, |fleet| {
                fleet.staleness_seconds.map_or_else(Samples::new, real)
            })
        },
    ),
    Metric::new(
        Gauge,
        "limiter_fleet_conflicts",
        "Limits whose settings differ between this host and other hosts of the fleet: limiter status names them.",
        |it| fleet(it, |fleet| one(fleet.conflicts())),
    ),
    Metric::new(
        Gauge,
        "limiter_fleet_overshoot_packets",
        "Packets of one source that all hosts together let through beyond the limit, at most, at that staleness.",
        |it| {
            fleet(it, |fleet| {
                let limits = fleet.limits.iter();
                let beyond =
                    |limit: &SharedLimit| Some(by("limit", &limit.name, limit.overshoot_packets?));
                limits.filter_map(beyond).collect()
            })
        },
    ),
    Metric::new(Gauge, "limiter_sources", "Sources in the table.", |it| {
        one(it.sources.tracked)
    }),
    Metric::new(
        Gauge,
        "limiter_sources_entries",
        "Entries of the table that are in use: two for a source that more than 64 bits of an IPv6 address tell.",
        |it| one(it.sources.entries),
    ),
    Metric::new(
        Gauge,
        "limiter_sources_capacity",
        "Entries that the table has.",
        |it| one(it.sources.capacity),
    ),
    Metric::new(
        Counter,
        "limiter_new_sources",
        "Sources taken into the table.",
        |it| one(it.sources.added),
    ),
    Metric::new(
        Counter,
        "limiter_forgotten_sources",
        "Sources whose entry another one has taken, because their bucket was full again.",
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
fn told<const N: usize>(labels: [(&'static str, &str); N]) -> (Labels, String) {
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
