//! The metrics. No label depends on received packets: sources are counted and ranked, but never named.

use std::{fmt, sync::Arc, time::UNIX_EPOCH};

use limiter_fleet::status::{Fleet, SharedLimit};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    registry::Registry,
};

use super::{
    collection::Reading,
    families::{
        Labels, Metric, Samples,
        Value::{self, Real, Whole},
    },
};
use crate::observe::{Count, Interface, Limit, reasons::ByReason};

/// Number of ranks of `limiter_top_dropped_packets`.
const RANKS: usize = 10;

const OF_HOST: &[Metric<Reading>] = &[
    Metric::info(
        "limiter_build",
        "The version of limiter that exports.",
        |_| vec![told([("version", env!("CARGO_PKG_VERSION"))])],
    ),
    Metric::gauge(
        "limiter_unreadable_attachments",
        "Attachments that cannot be read: limiter status says why.",
        |it| one(it.snapshot.unreadable.len() as u64),
    ),
    Metric::gauge(
        "limiter_collection_duration_seconds",
        "Time that reading these figures took. They are at most a second old.",
        |it| vec![(Labels::new(), Real(it.took.as_secs_f64()))],
    ),
    Metric::gauge(
        "limiter_top_dropped_packets",
        "Packets dropped of the source that most were dropped of (rank 1), and of the next ones, since each came \
         into the table. The page and limiter top have the addresses.",
        top,
    ),
];

/// The metrics of each interface, whose name is added to the labels.
const OF_INTERFACE: &[Metric<Interface>] = &[
    Metric::info(
        "limiter_attached",
        "What is attached to an interface, and where it runs (native, generic).",
        |it| {
            let program = it.program_id.to_string();
            vec![told([("mode", &*it.mode), ("program_id", &program)])]
        },
    ),
    Metric::gauge(
        "limiter_attached_timestamp_seconds",
        "When it was attached, in seconds since 1970. Counters have grown since then.",
        |it| {
            let time = humantime::parse_rfc3339_weak(&it.attached_at).ok();
            let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            since.map_or_else(Samples::new, |since| one(since.as_secs()))
        },
    ),
    Metric::gauge(
        "limiter_fallback",
        "1 where the program runs in generic mode because native mode was not to be had, else 0.",
        |it| one(it.fallback.is_some()),
    ),
    Metric::gauge(
        "limiter_shadow",
        "1 where nothing is dropped on the whole interface, else 0.",
        |it| one(it.shadow),
    ),
    Metric::gauge(
        "limiter_memory_bytes",
        "Kernel memory of all maps of an attachment, in bytes.",
        |it| one(it.sources.memory_bytes),
    ),
    Metric::counter(
        "limiter_events_lost",
        "Drops that limiter watch was to be told of and was not, because there were too many at once.",
        |it| one(it.events_lost),
    ),
    Metric::info("limiter_limit", "A limit as it is configured.", |it| {
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
    }),
    Metric::counter(
        "limiter_packets",
        "Packets that a limit decided about: pass, drop, or would_drop, which passed because of shadow. \
             A packet that several limits match counts for each of them.",
        |it| of_limits(it, |count| count.packets),
    ),
    Metric::counter(
        "limiter_bytes",
        "Bytes of the same packets, whole frames.",
        |it| of_limits(it, |count| count.bytes),
    ),
    Metric::counter(
        "limiter_interface_packets",
        "All packets that came in, each once: pass, drop, or would_drop, which passed because of shadow.",
        |it| {
            let it = it.verdicts;
            verdicts(|count| count.packets, it.passed, it.dropped, it.would_drop).into()
        },
    ),
    Metric::counter(
        "limiter_interface_bytes",
        "Bytes of the same packets, whole frames.",
        |it| {
            let it = it.verdicts;
            verdicts(|count| count.bytes, it.passed, it.dropped, it.would_drop).into()
        },
    ),
    Metric::counter(
        "limiter_drops",
        "Dropped packets: over a limit, on the deny list, new_source (one new source too many, or no room for it), \
             malformed, contended (lost the race for its bucket too often).",
        |it| by_reason(&it.drops),
    ),
    Metric::counter(
        "limiter_passes",
        "Packets that passed without being charged: not IP, on the allow list, matched by no limit, or of an \
             established connection.",
        |it| by_reason(&it.passes),
    ),
    Metric::gauge("limiter_list_prefixes", "Prefixes on a list.", |it| {
        let lists = it.lists.iter();
        lists
            .map(|list| by("list", &list.name, list.prefixes))
            .collect()
    }),
    Metric::counter(
        "limiter_list_packets",
        "Packets whose source a list decided about.",
        |it| {
            let lists = it.lists.iter();
            lists
                .map(|list| by("list", &list.name, list.hits.packets))
                .collect()
        },
    ),
    Metric::counter(
        "limiter_list_bytes",
        "Bytes of the same packets, whole frames.",
        |it| {
            let lists = it.lists.iter();
            lists
                .map(|list| by("list", &list.name, list.hits.bytes))
                .collect()
        },
    ),
    Metric::gauge(
        "limiter_fleet_hosts",
        "Hosts that share the limits, this one among them, when the store was last heard of.",
        |it| fleet(it, |fleet| one(fleet.hosts)),
    ),
    Metric::gauge(
        "limiter_fleet_store_up",
        "1 where an agent runs and the store answers it, else 0: then the limits hold on each host by itself.",
        |it| fleet(it, |fleet| one(fleet.is_shared())),
    ),
    Metric::gauge(
        "limiter_fleet_staleness_seconds",
        "How old what is known of the other hosts is, at most. Nothing where nothing is known.",
        |it| {
            fleet(it, |fleet| {
                let staleness = fleet.staleness_seconds.into_iter();
                staleness
                    .map(|seconds| (Labels::new(), Real(seconds)))
                    .collect()
            })
        },
    ),
    Metric::gauge(
        "limiter_fleet_conflicts",
        "Limits whose settings differ between this host and other hosts of the fleet: limiter status names them.",
        |it| fleet(it, |fleet| one(fleet.conflicts())),
    ),
    Metric::gauge(
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
    Metric::gauge("limiter_sources", "Sources in the table.", |it| {
        one(it.sources.tracked)
    }),
    Metric::gauge(
        "limiter_sources_entries",
        "Entries of the table that are in use: two for a source that more than 64 bits of an IPv6 address tell.",
        |it| one(it.sources.entries),
    ),
    Metric::gauge(
        "limiter_sources_capacity",
        "Entries that the table has.",
        |it| one(it.sources.capacity),
    ),
    Metric::counter(
        "limiter_new_sources",
        "Sources taken into the table.",
        |it| one(it.sources.added),
    ),
    Metric::counter(
        "limiter_forgotten_sources",
        "Sources whose entry another one has taken, because their bucket was full again.",
        |it| one(it.sources.removed),
    ),
];

/// All metrics, as OpenMetrics text.
pub fn openmetrics(reading: Arc<Reading>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(reading)));
    let mut text = String::new();
    // Writing to memory does not fail.
    let _ = text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Metrics(Arc<Reading>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let reading = &*self.0;
        for metric in OF_HOST {
            metric.write(&mut encoder, &(metric.samples)(reading))?;
        }
        for metric in OF_INTERFACE {
            let interfaces = reading.snapshot.status.interfaces.iter();
            let all = interfaces.flat_map(|it| named(it, (metric.samples)(it)));
            metric.write(&mut encoder, &all.collect())?;
        }
        Ok(())
    }
}

/// The samples of an interface, with its name.
fn named(interface: &Interface, samples: Samples) -> impl Iterator<Item = (Labels, Value)> {
    samples.into_iter().map(|(mut labels, value)| {
        labels.insert(0, ("interface", interface.name.clone()));
        (labels, value)
    })
}

/// A single sample without labels.
fn one(value: impl Into<u64>) -> Samples {
    vec![(Labels::new(), Whole(value.into()))]
}

/// A sample with one label.
fn by(label: &'static str, name: &str, value: u64) -> (Labels, Value) {
    (vec![(label, name.to_owned())], Whole(value))
}

/// A sample with the value 1, whose content is in its labels.
fn told<const N: usize>(labels: [(&'static str, &str); N]) -> (Labels, Value) {
    let labels = labels.map(|(label, value)| (label, value.to_owned()));
    (labels.into(), Whole(1))
}

/// Packets or bytes by verdict. Each packet has exactly one verdict.
fn verdicts(
    unit: fn(Count) -> u64,
    passed: Count,
    dropped: Count,
    would_drop: Count,
) -> [(Labels, Value); 3] {
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
