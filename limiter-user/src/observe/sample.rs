//! The samples of `top`, and the memory of the table from one scan to the next.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use limiter_common::{
    abi::Source,
    policy::verdict::Reason,
    table::{Seed, key::SourceKey},
};
use limiter_config::places::Places;

use super::{
    Choice, Drops, Interface, Reader, Top,
    choice::Chosen,
    source::{TopDrops, TopSource},
};

/// The attachment at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Everything that `status` shows.
    pub interface: Interface,
    /// The same at the last sample, if there was one.
    pub before: Option<Interface>,
    /// Everything that `top` shows. Its sources are those around the chosen one.
    pub top: Top,
    /// Packets over each limit since the last scan, by sources that have a bucket. The limits' own counters also have
    /// the new sources that were refused.
    pub over: BTreeMap<String, u64>,
    /// Number of sources that the filter lets through.
    pub matching: u64,
    /// Number of the first of the sources, in their order.
    pub first: usize,
    /// Number of the chosen source, in the same order.
    pub chosen: usize,
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
        let shown = sources.iter().filter(|_| reason == Reason::Limit);
        let (dropped, dropped_since) = shown.fold((0, 0), |(all, since), source| {
            (all + source.dropped_packets, since + source.dropped_since)
        });
        let since = count.packets.saturating_sub(before.of(reason).packets);
        let dropped_packets = count.packets.saturating_sub(dropped);
        (dropped_packets > 0).then(|| TopDrops {
            reason: reason.name().to_owned(),
            dropped_packets,
            dropped_packets_per_second: rate(since.saturating_sub(dropped_since)),
        })
    });
    others.collect()
}

/// Packets of a source since the last scan: those that passed, and those that were over the limit.
pub type Since = (u64, u64);

/// The sources that a scan has found, in order, and what is needed to describe them.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub(super) rows: Vec<(SourceKey, Source, Since)>,
    pub(super) readers: Vec<Reader>,
    /// The time since the scan before.
    pub(super) elapsed: Option<Duration>,
    /// Number of sources that the filter lets through. `rows` may have fewer.
    pub(super) matching: u64,
    /// Packets over each limit since the scan before, by slot.
    pub(super) over: Vec<u64>,
}

impl Found {
    /// Packets per second, of packets since the scan before.
    pub(super) fn rate(&self, count: u64) -> Option<f64> {
        self.elapsed
            .map(|elapsed| count as f64 / elapsed.as_secs_f64())
    }
}

/// Memory of the table's entries at the last scan: 24 bytes each, whatever the number of sources.
#[derive(Debug, Default)]
pub struct Gauge {
    /// The sources that are shown.
    pub choice: Choice,
    /// The databases that know their places.
    pub(super) places: Arc<Places>,
    /// Index of the interface, and when limiter was attached to it.
    attached: (u32, String),
    /// The middle of the last scan.
    scanned_at: Option<Instant>,
    /// By entry: the fingerprint of the source in it, 0 for none, and its counters.
    known: Vec<(u64, Since)>,
    /// The interface at the last scan.
    pub(super) last: Option<Interface>,
    /// The sources found by the last scan, in order.
    pub(super) found: Found,
    /// True if there is no second scan. Then entries are not remembered.
    once: bool,
}

impl Gauge {
    /// Creates a gauge for at most `most` sources. `once`: for a single scan, without a comparison.
    pub fn new(most: usize, once: bool) -> Self {
        Self {
            once,
            ..Self::showing(Choice::first(most))
        }
    }

    /// Creates a gauge for the sources of a view.
    pub fn showing(choice: Choice) -> Self {
        Self {
            choice,
            ..Self::default()
        }
    }

    /// Shows the places of sources, by these databases.
    #[must_use]
    pub fn with_places(self, places: Arc<Places>) -> Self {
        Self { places, ..self }
    }

    /// The number of sources that can be chosen.
    pub fn count(&self) -> usize {
        self.found.rows.len()
    }

    /// Chooses the source with this number, as far as there is one.
    pub fn choose(&mut self, number: usize) {
        let number = number.min(self.count().saturating_sub(1));
        self.choice.chosen = match self.found.rows.get(number) {
            Some((key, ..)) if number > 0 => Chosen::Source(*key, number),
            _ => Chosen::First,
        };
    }

    /// Begins a scan of a table with `entries` entries, of the attachment that is `attached`: the interface's index, and
    /// when. Makes room for the entries first: this takes long, and belongs to no scan.
    pub fn begin(&mut self, attached: (u32, String), entries: u64) {
        let entries = if self.once { 0 } else { entries };
        let entries = usize::try_from(entries).unwrap_or(usize::MAX);
        if self.attached != attached || self.known.len() != entries {
            self.attached = attached;
            self.scanned_at = None;
            self.known.clear();
            self.known.resize(entries, Default::default());
        }
    }

    /// Ends a scan. Returns the time since the last scan, if that scan was of the same table: from middle to middle,
    /// because sources are read all through a scan.
    pub fn end(&mut self, begun: Instant, now: Instant) -> Option<Duration> {
        let middle = begun + now.saturating_duration_since(begun) / 2;
        let last = self.scanned_at.replace(middle)?;
        let elapsed = middle.saturating_duration_since(last);
        (!elapsed.is_zero()).then_some(elapsed)
    }

    /// Packets of a source since the last scan; remembers its counters for the next one. `number`: index of the
    /// source's entry. For a source that was not there, returns all its packets.
    pub fn since(&mut self, number: usize, key: &SourceKey, source: &Source) -> Since {
        let Some(known) = self.known.get_mut(number) else {
            return Since::default();
        };
        let (fingerprint, now) = (Seed::KNOWN.mixed(key) | 1, (source.passed, source.refused));
        let (last_fingerprint, last) = std::mem::replace(known, (fingerprint, now));
        if last_fingerprint != fingerprint {
            return now;
        }
        // A counter that was reset has grown by its whole value.
        let grown = |last, now: u64| now.checked_sub(last).unwrap_or(now);
        (grown(last.0, now.0), grown(last.1, now.1))
    }
}

#[cfg(test)]
mod tests {
    use limiter_common::abi::counters::Counters;

    use super::*;
    use limiter_config::Key;

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
        let begin = |gauge: &mut Gauge| gauge.begin((3, "then".to_owned()), 4);
        let (first, second) = (key("192.0.2.1"), key("192.0.2.2"));
        begin(&mut gauge);
        gauge.since(1, &first, &source(10, 20));
        begin(&mut gauge);
        assert_eq!(gauge.since(1, &first, &source(15, 27)), (5, 7));
        begin(&mut gauge);
        assert_eq!(
            gauge.since(1, &second, &source(100, 300)),
            (100, 300),
            "the entry is another one's"
        );
        begin(&mut gauge);
        assert_eq!(
            gauge.since(1, &second, &source(101, 4)),
            (1, 4),
            "a counter that began anew"
        );
        // No entry of this table has this number.
        assert_eq!(gauge.since(4, &first, &source(1, 1)), (0, 0));
    }

    #[test]
    fn gauge_works_with_counters_beyond_32_bits() {
        let mut gauge = Gauge::default();
        gauge.begin((3, String::new()), 1);
        let key = key("192.0.2.1");
        let large = u64::from(u32::MAX);
        gauge.since(0, &key, &source(large, 5 * large));
        let now = source(large + 7, 5 * large + 3_000_000_000 / 2);
        assert_eq!(gauge.since(0, &key, &now), (7, 1_500_000_000));
    }

    #[test]
    fn time_between_scans_goes_from_middle_to_middle() {
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut gauge = Gauge::default();
        gauge.begin((1, String::new()), 4);
        assert_eq!(
            gauge.end(after(0), after(400)),
            None,
            "nothing to compare with"
        );
        gauge.begin((1, String::new()), 4);
        let elapsed = gauge.end(after(1_400), after(1_500));
        assert_eq!(elapsed, Some(Duration::from_millis(1_250)));
    }

    #[test]
    fn gauge_does_not_compare_with_another_table() {
        let start = Instant::now();
        let mut gauge = Gauge::default();
        let mut scan = |index, entries, second| {
            gauge.begin((index, "then".to_owned()), entries);
            let now = start + Duration::from_secs(second);
            gauge.end(now, now)
        };
        assert_eq!(scan(1, 4, 0), None);
        assert_eq!(scan(2, 4, 1), None, "another interface");
        assert_eq!(scan(2, 8, 2), None, "another size");
        assert_eq!(scan(2, 8, 2), None, "no time has passed");
        assert_eq!(scan(2, 8, 9), Some(Duration::from_secs(7)));
    }

    #[test]
    fn lines_of_many_sources_add_up_to_all_drops() {
        let source = |dropped_packets, dropped_since, would_drop_packets| TopSource {
            dropped_packets,
            dropped_since,
            would_drop_packets,
            ..TopSource::default()
        };
        let sources = [source(10, 3, 0), source(0, 0, 90)];
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
