//! The metrics. No label has values that whoever sends packets could choose: sources are counted and ranked, and
//! never named.

use std::{fmt, sync::Arc, time::UNIX_EPOCH};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    registry::Registry,
};

use super::{
    collection::Reading,
    families::{About, Labels, Writer},
};
use crate::observe::{Count, Interface, Limit, Verdicts, reasons::ByReason, snapshot::Snapshot};

/// Ranks of `limiter_top_dropped_packets`.
const RANKS: usize = 10;

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
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Reading { snapshot, took, .. } = &*self.0;
        let mut writer = Writer(encoder);
        exporter(&mut writer, snapshot, took.as_secs_f64())?;
        attachments(&mut writer, snapshot)?;
        limits(&mut writer, snapshot)?;
        packets(&mut writer, snapshot)?;
        lists(&mut writer, snapshot)?;
        fleets(&mut writer, snapshot)?;
        table(&mut writer, snapshot)?;
        top(&mut writer, snapshot)
    }
}

const fn about(name: &'static str, help: &'static str) -> About {
    About {
        name,
        unit: None,
        help,
    }
}

const fn measured(name: &'static str, unit: &'static str, help: &'static str) -> About {
    About {
        name,
        unit: Some(unit),
        help,
    }
}

fn of(interface: &Interface) -> Labels {
    vec![("interface", interface.name.clone())]
}

fn with(mut labels: Labels, name: &'static str, value: &str) -> Labels {
    labels.push((name, value.to_owned()));
    labels
}

/// A gauge is signed.
fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn exporter(writer: &mut Writer<'_>, snapshot: &Snapshot, took: f64) -> fmt::Result {
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    writer.infos(
        about("limiter_build", "The version of limiter that exports."),
        [version],
    )?;
    writer.gauges(
        about(
            "limiter_unreadable_attachments",
            "Attachments that cannot be read: limiter status says why.",
        ),
        [(Labels::new(), gauge(snapshot.unreadable.len() as u64))],
    )?;
    writer.gauges(
        measured(
            "limiter_collection_duration_seconds",
            "seconds",
            "Time that reading these figures took. They are at most a second old.",
        ),
        [(Labels::new(), took)],
    )
}

fn attachments(writer: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let interfaces = &snapshot.status.interfaces;
    writer.infos(
        about(
            "limiter_attached",
            "What is attached to an interface, and where it runs (native, generic).",
        ),
        interfaces.iter().map(|interface| {
            let labels = with(of(interface), "mode", &interface.mode);
            with(labels, "program_id", &interface.program_id.to_string())
        }),
    )?;
    writer.gauges(
        measured(
            "limiter_attached_timestamp_seconds",
            "seconds",
            "When it was attached, in seconds since 1970. Counters have grown since then.",
        ),
        interfaces.iter().filter_map(|interface| {
            let time = humantime::parse_rfc3339_weak(&interface.attached_at).ok()?;
            let since = time.duration_since(UNIX_EPOCH).ok()?;
            Some((of(interface), gauge(since.as_secs())))
        }),
    )?;
    writer.gauges(
        about(
            "limiter_fallback",
            "1 where the program runs in generic mode because native mode was not to be had, else 0.",
        ),
        interfaces
            .iter()
            .map(|interface| (of(interface), i64::from(interface.fallback.is_some()))),
    )?;
    writer.gauges(
        about(
            "limiter_shadow",
            "1 where nothing is dropped on the whole interface, else 0.",
        ),
        interfaces
            .iter()
            .map(|interface| (of(interface), i64::from(interface.shadow))),
    )?;
    writer.gauges(
        measured(
            "limiter_memory_bytes",
            "bytes",
            "Kernel memory of all maps of an attachment, in bytes.",
        ),
        interfaces
            .iter()
            .map(|interface| (of(interface), gauge(interface.sources.memory_bytes))),
    )?;
    writer.counters(
        about(
            "limiter_events_lost",
            "Drops that limiter watch was to be told of and was not, because there were too many at once.",
        ),
        interfaces
            .iter()
            .map(|interface| (of(interface), interface.events_lost)),
    )
}

/// Packets or bytes by verdict: each of them has exactly one.
fn verdicts(
    unit: fn(Count) -> u64,
    passed: Count,
    dropped: Count,
    would_drop: Count,
) -> [(&'static str, u64); 3] {
    let would_drop = unit(would_drop);
    [
        ("pass", unit(passed).wrapping_sub(would_drop)),
        ("drop", unit(dropped)),
        ("would_drop", would_drop),
    ]
}

fn verdicts_of(unit: fn(Count) -> u64, of: Verdicts) -> Vec<(&'static str, u64)> {
    verdicts(unit, of.passed, of.dropped, of.would_drop).to_vec()
}

fn limits(writer: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let all = || {
        let interfaces = snapshot.status.interfaces.iter();
        interfaces.flat_map(|interface| {
            let limits = interface.limits.iter();
            limits.map(|limit| (with(of(interface), "limit", &limit.name), limit))
        })
    };
    let counted = |unit: fn(Count) -> u64| {
        all().flat_map(
            move |(
                labels,
                Limit {
                    passed,
                    dropped,
                    would_drop,
                    ..
                },
            )| {
                verdicts(unit, *passed, *dropped, *would_drop)
                    .map(|(verdict, value)| (with(labels.clone(), "verdict", verdict), value))
            },
        )
    };
    writer.infos(
        about("limiter_limit", "A limit as it is configured."),
        all().map(|(labels, limit)| {
            let labels = with(labels, "rate", &limit.rate);
            let labels = with(labels, "burst", &limit.burst);
            let labels = with(labels, "key", &limit.key);
            let labels = with(labels, "algorithm", &limit.algorithm);
            with(labels, "shadow", &limit.shadow.to_string())
        }),
    )?;
    writer.counters(
        measured(
            "limiter_packets",
            "packets",
            "Packets that a limit decided about: pass, drop, or would_drop, which passed because of shadow. \
             A packet that several limits match counts for each of them.",
        ),
        counted(|count| count.packets),
    )?;
    writer.counters(
        measured(
            "limiter_bytes",
            "bytes",
            "Bytes of the same packets, whole frames.",
        ),
        counted(|count| count.bytes),
    )
}

fn packets(writer: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let interfaces = &snapshot.status.interfaces;
    let by = |label: &'static str, values: fn(&Interface) -> Vec<(&'static str, u64)>| {
        interfaces.iter().flat_map(move |interface| {
            let values = values(interface).into_iter();
            values.map(move |(name, value)| (with(of(interface), label, name), value))
        })
    };
    writer.counters(
        measured(
            "limiter_interface_packets",
            "packets",
            "All packets that came in, each once: pass, drop, or would_drop, which passed because of shadow.",
        ),
        by("verdict", |interface| {
            verdicts_of(|count| count.packets, interface.verdicts)
        }),
    )?;
    writer.counters(
        measured(
            "limiter_interface_bytes",
            "bytes",
            "Bytes of the same packets, whole frames.",
        ),
        by("verdict", |interface| {
            verdicts_of(|count| count.bytes, interface.verdicts)
        }),
    )?;
    writer.counters(
        about(
            "limiter_drops",
            "Dropped packets: over a limit, on the deny list, new_source (one new source too many, or no room for it), \
             malformed, contended (lost the race for its bucket too often).",
        ),
        by("reason", |interface| {
            by_reason(&interface.drops)
        }),
    )?;
    writer.counters(
        about(
            "limiter_passes",
            "Packets that passed without being charged: not IP, on the allow list, matched by no limit, or of an \
             established connection.",
        ),
        by("reason", |interface| {
            by_reason(&interface.passes)
        }),
    )
}

fn by_reason<const DROPS: bool>(reasons: &ByReason<DROPS>) -> Vec<(&'static str, u64)> {
    let counts = reasons.iter();
    counts
        .map(|(reason, count)| (reason.name(), count.packets))
        .collect()
}

fn lists(writer: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let all = || {
        let interfaces = snapshot.status.interfaces.iter();
        interfaces.flat_map(|interface| {
            let lists = interface.lists.iter();
            lists.map(|list| (with(of(interface), "list", &list.name), list))
        })
    };
    writer.gauges(
        about("limiter_list_prefixes", "Prefixes on a list."),
        all().map(|(labels, list)| (labels, gauge(list.prefixes))),
    )?;
    writer.counters(
        measured(
            "limiter_list_packets",
            "packets",
            "Packets whose source a list decided about.",
        ),
        all().map(|(labels, list)| (labels, list.hits.packets)),
    )?;
    writer.counters(
        measured(
            "limiter_list_bytes",
            "bytes",
            "Bytes of the same packets, whole frames.",
        ),
        all().map(|(labels, list)| (labels, list.hits.bytes)),
    )
}

fn fleets(writer: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let all = || {
        let interfaces = snapshot.status.interfaces.iter();
        interfaces.filter_map(|interface| Some((of(interface), interface.fleet.as_ref()?)))
    };
    writer.gauges(
        about(
            "limiter_fleet_hosts",
            "Hosts that share the limits, this one among them, when the store was last heard of.",
        ),
        all().map(|(labels, fleet)| (labels, i64::from(fleet.hosts))),
    )?;
    writer.gauges(
        about(
            "limiter_fleet_store_up",
            "1 where an agent runs and the store answers it, else 0: then the limits hold on each host by itself.",
        ),
        all().map(|(labels, fleet)| (labels, i64::from(fleet.is_shared()))),
    )?;
    writer.gauges(
        measured(
            "limiter_fleet_staleness_seconds",
            "seconds",
            "How old what is known of the other hosts is, at most. Nothing where nothing is known.",
        ),
        all().filter_map(|(labels, fleet)| Some((labels, fleet.staleness_seconds?))),
    )?;
    writer.gauges(
        about(
            "limiter_fleet_conflicts",
            "Limits whose settings differ between this host and other hosts of the fleet: limiter status names them.",
        ),
        all().map(|(labels, fleet)| (labels, gauge(fleet.conflicts()))),
    )?;
    writer.gauges(
        measured(
            "limiter_fleet_overshoot_packets",
            "packets",
            "Packets of one source that all hosts together let through beyond the limit, at most, at that staleness.",
        ),
        all().flat_map(|(labels, fleet)| {
            fleet.limits.iter().filter_map(move |limit| {
                let labels = with(labels.clone(), "limit", &limit.name);
                Some((labels, gauge(limit.overshoot_packets?)))
            })
        }),
    )
}

fn table(writer: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    use crate::observe::Sources;

    let of_table = |value: fn(&Sources) -> u64| {
        let interfaces = snapshot.status.interfaces.iter();
        interfaces.map(move |interface| (of(interface), value(&interface.sources)))
    };
    let now =
        |value: fn(&Sources) -> u64| of_table(value).map(|(labels, value)| (labels, gauge(value)));
    writer.gauges(
        about("limiter_sources", "Sources in the table."),
        now(|sources| sources.tracked),
    )?;
    writer.gauges(
        about(
            "limiter_sources_entries",
            "Entries of the table that are in use: two for a source that more than 64 bits of an IPv6 address tell.",
        ),
        now(|sources| sources.entries),
    )?;
    writer.gauges(
        about("limiter_sources_capacity", "Entries that the table has."),
        now(|sources| sources.capacity),
    )?;
    writer.counters(
        about("limiter_new_sources", "Sources taken into the table."),
        of_table(|sources| sources.added),
    )?;
    writer.counters(
        about(
            "limiter_forgotten_sources",
            "Sources whose entry another one has taken, because their bucket was full again.",
        ),
        of_table(|sources| sources.removed),
    )
}

fn top(writer: &mut Writer<'_>, snapshot: &Snapshot) -> fmt::Result {
    let interfaces = snapshot.status.interfaces.iter().zip(&snapshot.tops);
    writer.gauges(
        measured(
            "limiter_top_dropped_packets",
            "packets",
            "Packets dropped of the source that most were dropped of (rank 1), and of the next ones, since each came \
             into the table. The page and limiter top have the addresses.",
        ),
        interfaces.flat_map(|(interface, top)| {
            let dropped = top.sources.iter().map(|source| source.dropped_packets);
            let ranked = (1..=RANKS).zip(dropped.filter(|packets| *packets > 0));
            ranked.map(|(rank, packets)| {
                let labels = with(of(interface), "rank", &rank.to_string());
                (labels, gauge(packets))
            })
        }),
    )
}
