//! The metrics. No label depends on received packets: sources are counted and ranked, but never named.

use std::{fmt::Write, time::UNIX_EPOCH};

use limiter_feed::Reason;
use limiter_fleet::status::Fleet;

use super::collection::Reading;
use crate::observe::{Count, Feed, Interface, List, reasons::ByReason, source::Top};

/// The metrics, one line each: kind, name, description. A histogram has samples with three endings. A counter only grows, and starts at 0 with a new attachment.
const METRICS: &str = include_str!("metrics.txt");

/// Number of ranks of `limiter_top_dropped_packets`.
const RANKS: usize = 10;

/// The labels of a sample, and its value.
type Sample = (Vec<(&'static str, String)>, String);

/// Writes all metrics that have samples, in the text format 0.0.4 of Prometheus.
pub fn text(reading: &Reading) -> String {
    let snapshot = &reading.snapshot;
    let mut text = String::new();
    for metric in METRICS.lines() {
        let (kind, described) = metric.split_once(' ').unwrap_or_default();
        let name = described.split(' ').next().unwrap_or_default();
        let parts: &[&str] = match kind {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let mut lines = String::new();
        for part in parts {
            let name = format!("{name}{part}");
            let mut samples = of_host(&name, reading);
            for (interface, top) in snapshot.status.interfaces.iter().zip(&snapshot.tops) {
                for (mut labels, value) in of_interface(&name, interface, top) {
                    labels.insert(0, ("interface", interface.name.clone()));
                    samples.push((labels, value));
                }
            }
            for (labels, value) in samples {
                let _ = writeln!(lines, "{name}{} {value}", in_braces(&labels));
            }
        }
        if !lines.is_empty() {
            let _ = write!(text, "# HELP {described}\n# TYPE {name} {kind}\n{lines}");
        }
    }
    text
}

/// Formats labels with their braces; without labels, there are none.
fn in_braces(labels: &[(&str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let labels = labels.iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{name}=\"{}\"", value.replace('\n', "\\n"))
    });
    format!("{{{}}}", labels.collect::<Vec<_>>().join(","))
}

fn of_host(name: &str, reading: &Reading) -> Vec<Sample> {
    let feeds = reading.snapshot.status.feeds.iter();
    match name {
        "limiter_build_info" => vec![sample(&[("version", env!("CARGO_PKG_VERSION"))], 1)],
        "limiter_unreadable_attachments" => one(reading.snapshot.unreadable.len()),
        "limiter_feed_up" => named("feed", feeds, |feed| {
            let is_up = feed.running && feed.state.error.is_none();
            Some((&feed.name, u8::from(is_up)))
        }),
        "limiter_feed_last_success_timestamp_seconds" => named("feed", feeds, |feed| {
            Some((&feed.name, feed.state.succeeded?))
        }),
        "limiter_feed_left_out" => feeds.flat_map(left_out).collect(),
        "limiter_feed_held_back" => named("feed", feeds, |feed| {
            Some((&feed.name, feed.state.held_back))
        }),
        "limiter_collection_duration_seconds" => one(reading.took.as_secs_f64()),
        _ => Vec::new(),
    }
}

/// The entries of a feed's source that are left out, for each reason.
fn left_out(feed: &Feed) -> impl Iterator<Item = Sample> {
    Reason::ALL.into_iter().map(|reason| {
        let left_out = feed.state.left_out.iter();
        let entries = left_out
            .filter(|it| it.reason == reason)
            .map(|it| it.entries);
        let labels = [("feed", &*feed.name), ("reason", reason.name())];
        sample(&labels, entries.sum::<u64>())
    })
}

/// The samples of an interface, without its name.
fn of_interface(name: &str, it: &Interface, top: &Top) -> Vec<Sample> {
    let by_list = |value: fn(&List) -> u64| {
        named("list", it.lists.iter(), |list| {
            Some((&list.name, value(list)))
        })
    };
    match name {
        "limiter_top_dropped_packets" => ranks(top),
        "limiter_attached_info" => {
            let program = it.program_id.to_string();
            vec![sample(&[("mode", &it.mode), ("program_id", &program)], 1)]
        }
        "limiter_attached_timestamp_seconds" => {
            let time = humantime::parse_rfc3339_weak(&it.attached_at).ok();
            let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            since.map_or_else(Vec::new, |since| one(since.as_secs()))
        }
        "limiter_fallback" => one(u8::from(it.fallback.is_some())),
        "limiter_shadow" => one(u8::from(it.shadow)),
        "limiter_memory_bytes" => one(it.sources.memory_bytes),
        "limiter_events_lost_total" => one(it.events_lost),
        "limiter_limit_info" => limits(it),
        "limiter_rate_ratio" => named("limit", it.limits.iter(), |limit| {
            (limit.adapted == Some(true)).then_some((&limit.name, limit.scale))
        }),
        "limiter_held_sources" => named("limit", it.limits.iter(), |limit| {
            Some((&limit.name, limit.held_sources?))
        }),
        "limiter_packets_total" => by_limit(it, |count| count.packets),
        "limiter_bytes_total" => by_limit(it, |count| count.bytes),
        "limiter_interface_packets_total" => of_all(it, |count| count.packets),
        "limiter_interface_bytes_total" => of_all(it, |count| count.bytes),
        "limiter_drops_total" => by_reason(&it.drops),
        "limiter_passes_total" => by_reason(&it.passes),
        "limiter_list_prefixes" => by_list(|list| list.prefixes),
        "limiter_list_packets_total" => by_list(|list| list.hits.packets),
        "limiter_list_bytes_total" => by_list(|list| list.hits.bytes),
        "limiter_bans" => named("origin", it.bans.by_origin.iter(), Some),
        "limiter_sources" => one(it.sources.tracked),
        "limiter_sources_entries" => one(it.sources.entries),
        "limiter_sources_capacity" => one(it.sources.capacity),
        "limiter_new_sources_total" => one(it.sources.added),
        "limiter_second_chances_total" => one(it.sources.second_chances),
        "limiter_proven_sources_total" => one(it.sources.proven),
        "limiter_came_again_packets_total" => one(it.sources.came_again),
        "limiter_delay_seconds_bucket" => (it.delays.below.iter())
            .map(|below| sample(&[("le", &below.seconds.to_string())], below.packets))
            .chain([sample(&[("le", "+Inf")], it.delays.packets)])
            .collect(),
        "limiter_delay_seconds_sum" => one(it.delays.seconds),
        "limiter_delay_seconds_count" => one(it.delays.packets),
        "limiter_forgotten_sources_total" => one(it.sources.removed),
        name => {
            let fleet = it.fleet.as_ref();
            fleet.map_or_else(Vec::new, |fleet| of_fleet(name, fleet))
        }
    }
}

fn of_fleet(name: &str, fleet: &Fleet) -> Vec<Sample> {
    match name {
        "limiter_fleet_hosts" => one(fleet.hosts),
        "limiter_fleet_store_up" => one(u8::from(fleet.is_shared())),
        "limiter_fleet_staleness_seconds" => fleet.staleness_seconds.map_or_else(Vec::new, one),
        "limiter_fleet_conflicts" => one(fleet.conflicts()),
        "limiter_fleet_overshoot_packets" => named("limit", fleet.limits.iter(), |limit| {
            Some((&limit.name, limit.overshoot_packets?))
        }),
        _ => Vec::new(),
    }
}

fn sample(labels: &[(&'static str, &str)], value: impl ToString) -> Sample {
    let labels = labels.iter();
    let labels = labels.map(|(label, value)| (*label, (*value).to_owned()));
    (labels.collect(), value.to_string())
}

/// A sample for each of `all` that has one, with a label.
fn named<T, N: AsRef<str>, V: ToString>(
    label: &'static str,
    all: impl Iterator<Item = T>,
    of: impl Fn(T) -> Option<(N, V)>,
) -> Vec<Sample> {
    let samples = all.filter_map(of);
    samples
        .map(|(name, value)| sample(&[(label, name.as_ref())], value))
        .collect()
}

/// A single sample without labels.
fn one(value: impl ToString) -> Vec<Sample> {
    vec![sample(&[], value)]
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

fn of_all(it: &Interface, unit: fn(Count) -> u64) -> Vec<Sample> {
    let of = it.verdicts;
    verdicts(&[], [of.passed, of.dropped, of.would_drop].map(unit)).into()
}

fn by_limit(it: &Interface, unit: fn(Count) -> u64) -> Vec<Sample> {
    let limits = it.limits.iter().flat_map(|of| {
        let counts = [of.passed, of.dropped, of.would_drop].map(unit);
        verdicts(&[("limit", &of.name)], counts)
    });
    limits.collect()
}

fn limits(it: &Interface) -> Vec<Sample> {
    let limits = it.limits.iter().map(|limit| {
        let labels: &[(&'static str, &str)] = &[
            ("limit", &limit.name),
            ("rate", &limit.rate),
            ("burst", &limit.burst),
            ("key", &limit.key),
            ("algorithm", &limit.algorithm),
            ("shadow", if limit.shadow { "true" } else { "false" }),
        ];
        sample(labels, 1)
    });
    limits.collect()
}

fn by_reason<const DROPS: bool>(reasons: &ByReason<DROPS>) -> Vec<Sample> {
    named("reason", reasons.iter(), |(reason, count)| {
        Some((reason.name(), count.packets))
    })
}

fn ranks(top: &Top) -> Vec<Sample> {
    let dropped = top.sources.iter().map(|source| source.dropped_packets);
    let ranked = (1..=RANKS).zip(dropped.filter(|packets| *packets > 0));
    named("rank", ranked, |(rank, packets)| {
        Some((rank.to_string(), packets))
    })
}

#[cfg(test)]
mod tests {
    use super::in_braces;

    #[test]
    fn label_values_are_escaped() {
        let labels = [("x", "a\\b\"\n".to_owned()), ("y", "1".to_owned())];
        assert_eq!(in_braces(&labels), "{x=\"a\\\\b\\\"\\n\",y=\"1\"}");
    }
}
