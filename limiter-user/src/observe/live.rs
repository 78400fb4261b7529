//! The rows of `top`, and the memory of the table from one scan to the next.

use std::time::{Duration, Instant};

use ipnet::IpNet;
use limiter_common::{
    abi::Source,
    policy::verdict::Reason,
    table::{Seed, key::SourceKey},
};

use super::{
    Count, Delays, Drops, Interface,
    busiest::{Activity, Order},
};

/// A selection of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Order of the sources.
    pub order: Order,
    /// Maximum number of sources.
    pub most: usize,
}

/// The attachment at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Everything that `status` shows.
    pub interface: Interface,
    /// Time since the last scan; none if there is no earlier scan to compare with.
    pub elapsed: Option<Duration>,
    /// Delays since the last scan; none without it, or if no limit has `max_delay`.
    pub delays: Option<Delays>,
    /// The wanted sources, in order, then drops of others.
    pub rows: Vec<Row>,
}

/// A source, or drops that are not attributed to a single source.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The text for the source: an address or a prefix, with a port if the limit's key has one.
    pub source: String,
    /// The limit that the bucket belongs to.
    pub limit: String,
    /// The addresses that share the bucket; none if all addresses do.
    pub network: Option<IpNet>,
    /// The list that decides about the source before any limit.
    pub listed: Option<&'static str>,
    /// Reason of the drops; only for drops that are not attributed to a single source.
    pub reason: Option<Reason>,
    /// The numbers that the row is sorted by.
    pub activity: Activity,
    /// Tokens left.
    pub tokens: f64,
    /// Seconds for which the limit still holds the source; none if it does not.
    pub held_seconds: Option<f64>,
}

impl Row {
    /// Creates a row of drops that are not attributed to a single source.
    fn of_many(reason: Reason, dropped: u64, since: u64) -> Self {
        let (source, limit) = match reason {
            Reason::Limit => ("other sources", "any"),
            Reason::Deny => ("denied sources", "deny list"),
            Reason::Ban => ("banned sources", "ban"),
            Reason::NewSource => ("new sources", "new source"),
            Reason::Answered => ("answered SYNs", "new source"),
            reason => (reason.name(), reason.name()),
        };
        Self {
            source: source.to_owned(),
            limit: limit.to_owned(),
            network: None,
            listed: None,
            reason: Some(reason),
            activity: Activity {
                over: dropped,
                drops: true,
                over_since: since,
                ..Activity::default()
            },
            tokens: 0.0,
            held_seconds: None,
        }
    }
}

/// The drops that `rows` do not show. Together, all lines are the interface's drops. `before`: the interface's drops
/// at the last scan.
pub fn rest(drops: &Drops, before: &Drops, rows: &[Row]) -> Vec<Row> {
    let others = |(reason, count): (Reason, Count)| {
        let mut dropped = count.packets;
        let mut since = dropped.saturating_sub(before.of(reason).packets);
        for row in rows {
            if row.activity.drops && row.reason.unwrap_or(Reason::Limit) == reason {
                dropped = dropped.saturating_sub(row.activity.over);
                since = since.saturating_sub(row.activity.over_since);
            }
        }
        (dropped > 0).then(|| Row::of_many(reason, dropped, since))
    };
    drops.iter().filter_map(others).collect()
}

/// Packets per second.
#[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// Packets of a source since the last scan: those that passed, and those that were over the limit.
pub type Since = (u64, u64);

/// Memory of the table's entries at the last scan: 12 bytes each, whatever the number of sources.
#[derive(Debug, Default)]
pub struct Gauge {
    /// Index of the interface, and when limiter was attached to it.
    of: (u32, String),
    at: Option<Instant>,
    known: Vec<Known>,
    /// Drops and delays of the interface at the last scan.
    drops: Drops,
    pub(super) delays: Delays,
    /// Whether there is no second scan. Then entries are not remembered.
    once: bool,
}

/// An entry at the last scan.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Fingerprint of the source in the entry, 32 bits; 0 for none. Two sources rarely have equal ones.
    source: u32,
    /// The low 32 bits of the counter of passed packets.
    passed: u32,
    over: u32,
}

/// The longest time between two scans that can be compared. A counter's low 32 bits can tell an increase of up to half
/// their range. That takes 14 seconds at 148.8 million packets per second, the maximum of 100 Gbit/s.
pub const LONGEST: Duration = Duration::from_secs(14);

impl Gauge {
    /// Creates a gauge for a single scan, without a comparison.
    pub fn once() -> Self {
        Self {
            once: true,
            ..Self::default()
        }
    }

    /// Begins a scan of a table with `entries` entries, of the attachment `of`. Returns the time since the last scan
    /// if that scan was of the same table and not too long ago.
    pub fn begin(&mut self, of: (u32, String), entries: u64, now: Instant) -> Option<Duration> {
        let entries = if self.once { 0 } else { entries };
        let entries = usize::try_from(entries).unwrap_or(usize::MAX);
        let elapsed = self.at.map(|at| now.saturating_duration_since(at));
        let same = self.of == of && self.known.len() == entries;
        if !same {
            self.of = of;
            self.known.clear();
            self.known.resize(entries, Known::default());
        }
        self.at = Some(now);
        elapsed.filter(|elapsed| same && (Duration::from_nanos(1)..LONGEST).contains(elapsed))
    }

    /// Remembers the interface's drops. Returns the drops at the last scan.
    pub fn drops(&mut self, now: Drops) -> Drops {
        std::mem::replace(&mut self.drops, now)
    }

    /// Packets of a source since the last scan; remembers its counters for the next one. `number`: index of the
    /// source's entry. For a source that was not there, returns all its packets.
    pub fn since(&mut self, number: usize, key: &SourceKey, source: &Source) -> Since {
        let Some(known) = self.known.get_mut(number) else {
            return Since::default();
        };
        let now = Known {
            source: (Seed::KNOWN.mixed(key) >> 32) as u32 | 1,
            passed: low(source.passed),
            over: low(source.refused),
        };
        let last = std::mem::replace(known, now);
        if last.source != now.source {
            return (source.passed, source.refused);
        }
        (
            grown(last.passed, source.passed),
            grown(last.over, source.refused),
        )
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the bits that are kept")]
const fn low(counter: u64) -> u32 {
    counter as u32
}

/// The growth of a counter; its whole value if it was reset.
fn grown(last: u32, counter: u64) -> u64 {
    let grown = low(counter).wrapping_sub(last);
    if grown.cast_signed() < 0 {
        counter
    } else {
        u64::from(grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Key;

    fn source(passed: u64, refused: u64) -> Source {
        Source {
            passed,
            refused,
            ..Source::default()
        }
    }

    fn key(address: &str) -> SourceKey {
        Key::default().of(0, address.parse().unwrap(), 0)
    }

    #[test]
    fn gauge_counts_each_sources_packets_since_the_last_scan() {
        let mut gauge = Gauge::default();
        let of = || (3, "then".to_owned());
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let (one, other) = (key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(gauge.begin(of(), 4, start), None, "nothing to compare with");
        gauge.since(1, &one, &source(10, 20));
        assert_eq!(gauge.begin(of(), 4, later(2)), Some(Duration::from_secs(2)));
        assert_eq!(gauge.since(1, &one, &source(15, 27)), (5, 7));
        gauge.begin(of(), 4, later(3));
        assert_eq!(
            gauge.since(1, &other, &source(100, 300)),
            (100, 300),
            "the entry is another one's"
        );
        gauge.begin(of(), 4, later(4));
        assert_eq!(
            gauge.since(1, &other, &source(101, 4)),
            (1, 4),
            "a counter that began anew"
        );
        // No entry of this table has this number.
        assert_eq!(gauge.since(4, &one, &source(1, 1)), (0, 0));
    }

    #[test]
    fn gauge_works_with_counters_beyond_32_bits() {
        let mut gauge = Gauge::default();
        gauge.begin((3, String::new()), 1, Instant::now());
        let key = key("192.0.2.1");
        let large = u64::from(u32::MAX);
        gauge.since(0, &key, &source(large, 5 * large));
        let now = source(large + 7, 5 * large + 3_000_000_000 / 2);
        assert_eq!(gauge.since(0, &key, &now), (7, 1_500_000_000));
    }

    #[test]
    fn gauge_does_not_compare_with_another_table_or_an_old_scan() {
        let start = Instant::now();
        let soon = start + Duration::from_secs(1);
        let of = |index| (index, "then".to_owned());
        let mut gauge = Gauge::default();
        gauge.begin(of(1), 4, start);
        assert_eq!(gauge.begin(of(2), 4, soon), None, "another interface");
        assert_eq!(gauge.begin(of(2), 8, soon), None, "another size");
        assert_eq!(gauge.begin(of(2), 8, soon), None, "no time has passed");
        assert_eq!(gauge.begin(of(2), 8, soon + LONGEST), None, "long ago");
        assert!(gauge.begin(of(2), 8, soon + LONGEST * 3 / 2).is_some());
    }

    #[test]
    fn lines_of_many_sources_add_up_to_all_drops() {
        let row = |over, over_since, drops| Row {
            reason: None,
            activity: Activity {
                over,
                over_since,
                drops,
                ..Activity::default()
            },
            ..Row::of_many(Reason::Limit, 0, 0)
        };
        let rows = [row(10, 3, true), row(90, 9, false)];
        let count = |packets| Count { packets, bytes: 0 };
        let drops = |limit, deny| {
            let mut drops = Drops::default();
            drops.set(Reason::Limit, count(limit));
            drops.set(Reason::Deny, count(deny));
            drops.set(Reason::NewSource, count(7));
            drops
        };
        let lines = rest(&drops(25, 40), &drops(20, 30), &rows);
        let seen: Vec<_> = lines
            .iter()
            .map(|line| (&*line.source, line.activity.over, line.activity.over_since))
            .collect();
        // A source in shadow drops nothing.
        assert_eq!(
            seen,
            [
                ("other sources", 15, 2),
                ("denied sources", 40, 10),
                ("new sources", 7, 0)
            ]
        );
    }
}
