//! The samples of `top`, and the memory of the table from one scan to the next.

use std::time::{Duration, Instant};

use limiter_common::{
    abi::Source,
    policy::verdict::Reason,
    table::{Seed, key::SourceKey},
};

use super::{
    Delays, Drops, Interface, Top,
    busiest::Order,
    source::{TopDrops, TopSource},
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
    /// Everything that `top` shows.
    pub top: Top,
}

/// The drops that `sources` do not show. Together, all lines are the interface's drops. `before`: the interface's drops
/// at the last scan. `rate`: packets per second.
pub fn rest(
    drops: &Drops,
    before: &Drops,
    sources: &[TopSource],
    rate: impl Fn(u64) -> Option<f64>,
) -> Vec<TopDrops> {
    let others = drops.iter().filter_map(|(reason, count)| {
        let shown = sources.iter().map(|of| of.activity);
        let shown = shown.filter(|of| of.drops && reason == Reason::Limit);
        let (over, over_since) = shown.fold((0, 0), |(over, since), of| {
            (over + of.over, since + of.over_since)
        });
        let since = count.packets.saturating_sub(before.of(reason).packets);
        let dropped_packets = count.packets.saturating_sub(over);
        (dropped_packets > 0).then(|| TopDrops {
            reason: reason.name().to_owned(),
            dropped_packets,
            dropped_packets_per_second: rate(since.saturating_sub(over_since)),
        })
    });
    others.collect()
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
    pub(super) drops: Drops,
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
    use limiter_common::abi::counters::Counters;

    use super::*;
    use crate::{config::Key, observe::busiest::Activity};

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
        let source = |over, over_since, drops| TopSource {
            activity: Activity {
                over,
                over_since,
                drops,
                ..Activity::default()
            },
            ..TopSource::default()
        };
        let sources = [source(10, 3, true), source(90, 9, false)];
        let drops = |limit, deny| {
            let mut counters = Counters::default();
            for (reason, packets) in [
                (Reason::Limit, limit),
                (Reason::Deny, deny),
                (Reason::NewSource, 7),
            ] {
                counters.by_reason[reason as usize].packets = packets;
            }
            Drops::new(&counters)
        };
        let rate = |count| Some(count as f64);
        let lines = rest(&drops(25, 40), &drops(20, 30), &sources, rate);
        let seen: Vec<_> = lines
            .iter()
            .map(|line| {
                let since = line.dropped_packets_per_second.unwrap();
                (&*line.reason, line.dropped_packets, since)
            })
            .collect();
        // A source in shadow drops nothing.
        let expected = [
            ("deny", 40, 10.0),
            ("limit", 15, 2.0),
            ("new_source", 7, 0.0),
        ];
        assert_eq!(seen.len(), 3);
        assert!(expected.iter().all(|line| seen.contains(line)), "{seen:?}");
    }
}
