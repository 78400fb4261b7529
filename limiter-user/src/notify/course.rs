//! The course of a flood: what was dropped since it began, for which reason, by which limit, and from whom.

use std::{collections::BTreeMap, time::Duration};

use limiter_common::policy::verdict::Reason;

use crate::observe::{Interface, Top};

/// The most sources that are counted. A flood of more has no source that matters.
const SOURCES: usize = 256;

/// Packets that were dropped, by whatever the key is.
type Dropped<K> = BTreeMap<K, u64>;

/// The drops between two readings, or of all readings in which a condition held.
#[derive(Clone, Debug, Default)]
pub struct Drops {
    by_reason: Dropped<Reason>,
    by_limit: Dropped<String>,
    by_source: Dropped<String>,
}

impl Drops {
    /// The drops from one reading of an interface to the next.
    pub fn between(before: (&Interface, &Top), now: (&Interface, &Top)) -> Self {
        let mut drops = Self::default();
        for (reason, count) in now.0.drops.iter() {
            let last = before.0.drops.of(reason).packets;
            add(&mut drops.by_reason, reason, count.packets, last);
        }
        for limit in &now.0.limits {
            let mut earlier = before.0.limits.iter();
            let earlier = earlier.find(|earlier| earlier.name == limit.name);
            let last = earlier.map_or(0, |earlier| earlier.dropped.packets);
            let name = limit.name.clone();
            add(&mut drops.by_limit, name, limit.dropped.packets, last);
        }
        for source in &now.1.sources {
            let mut earlier = before.1.sources.iter();
            let is_same =
                |name: &str, limit: &str| (name, limit) == (&source.source, &source.limit);
            let earlier = earlier.find(|earlier| is_same(&earlier.source, &earlier.limit));
            // A source that was not among the busiest ones had few drops, or was not in the table.
            let last = earlier.map_or(0, |earlier| earlier.dropped_packets);
            let name = source.source.clone();
            add(&mut drops.by_source, name, source.dropped_packets, last);
        }
        drops
    }

    /// Number of dropped packets.
    pub fn packets(&self) -> u64 {
        self.by_reason.values().sum()
    }

    /// The reason for most of the drops.
    pub fn reason(&self) -> Option<Reason> {
        most(&self.by_reason, 1).first().map(|(reason, _)| **reason)
    }

    /// The limit with most of the drops; none if most have another reason.
    pub fn limit(&self) -> Option<&str> {
        let most = most(&self.by_limit, 1);
        let is_limit = self.reason() == Some(Reason::Limit);
        let limit = most.first().filter(|_| is_limit);
        limit.map(|(name, _)| name.as_str())
    }

    /// The sources with most of the drops, with the number of their packets. Sources are read a moment after the sums:
    /// none has more than all.
    pub fn sources(&self, count: usize) -> Vec<(&String, u64)> {
        let mut sources = most(&self.by_source, count);
        let all = self.packets();
        for (_, packets) in &mut sources {
            *packets = all.min(*packets);
        }
        sources
    }

    fn add(&mut self, other: &Self) {
        merge(&mut self.by_reason, &other.by_reason);
        merge(&mut self.by_limit, &other.by_limit);
        merge(&mut self.by_source, &other.by_source);
        while self.by_source.len() > SOURCES {
            let least = self.by_source.iter().min_by_key(|(_, packets)| **packets);
            let Some(least) = least.map(|(name, _)| name.clone()) else {
                break;
            };
            self.by_source.remove(&least);
        }
    }
}

/// Adds what a counter has grown by. A counter that restarted has grown by its whole value.
fn add<K: Ord>(dropped: &mut Dropped<K>, key: K, now: u64, last: u64) {
    let grown = now.checked_sub(last).unwrap_or(now);
    if grown > 0 {
        *dropped.entry(key).or_default() += grown;
    }
}

fn merge<K: Ord + Clone>(dropped: &mut Dropped<K>, other: &Dropped<K>) {
    for (key, packets) in other {
        *dropped.entry(key.clone()).or_default() += packets;
    }
}

fn most<K: Ord>(dropped: &Dropped<K>, count: usize) -> Vec<(&K, u64)> {
    let mut sorted: Vec<_> = dropped
        .iter()
        .map(|(key, packets)| (key, *packets))
        .collect();
    sorted.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
    sorted.truncate(count);
    sorted
}

/// A condition from its beginning on.
#[derive(Debug, Default)]
pub struct Course {
    /// The first and the last reading in which the condition held.
    times: Option<(Duration, Duration)>,
    /// The drops while it held.
    pub drops: Drops,
    /// The most drops per second.
    pub peak: f64,
}

impl Course {
    /// Takes a reading. `before`: the time of the reading before; `told`: the beginning was told, and not yet the end.
    pub fn step(&mut self, [before, now]: [Duration; 2], holds: bool, told: bool, drops: &Drops) {
        if !holds {
            if !told {
                *self = Self::default();
            }
            return;
        }
        let begin = self.times.map_or(before, |(begin, _)| begin);
        self.times = Some((begin, now));
        self.drops.add(drops);
        let rate = drops.packets() as f64 / (now - before).as_secs_f64().max(1e-3);
        self.peak = self.peak.max(rate.round());
    }

    /// The time for which the condition has held.
    pub fn duration(&self) -> Duration {
        self.times
            .map_or(Duration::ZERO, |(begin, end)| end - begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drops(reason: Reason, limit: &str, source: &str, packets: u64) -> Drops {
        Drops {
            by_reason: [(reason, packets)].into(),
            by_limit: [(limit.to_owned(), packets)].into(),
            by_source: [(source.to_owned(), packets)].into(),
        }
    }

    fn at(seconds: u64) -> [Duration; 2] {
        [seconds - 2, seconds].map(Duration::from_secs)
    }

    #[test]
    fn course_sums_up_a_flood_until_its_end_was_told() {
        let mut course = Course::default();
        let few = drops(Reason::NewSource, "all", "192.0.2.1", 10);
        course.step(at(10), false, false, &few);
        course.step(
            at(12),
            true,
            false,
            &drops(Reason::Limit, "dns", "192.0.2.7", 4_000),
        );
        course.step(
            at(14),
            true,
            true,
            &drops(Reason::Limit, "web", "192.0.2.8", 1_000),
        );
        course.step(at(16), false, true, &few);
        course.step(
            at(18),
            true,
            true,
            &drops(Reason::Limit, "dns", "192.0.2.7", 2_000),
        );
        course.step(at(20), false, true, &few);
        assert_eq!(course.duration(), Duration::from_secs(8));
        assert_eq!((course.drops.packets(), course.peak), (7_000, 2_000.0));
        assert_eq!(course.drops.reason(), Some(Reason::Limit));
        assert_eq!(course.drops.limit(), Some("dns"));
        let sources = [
            (&"192.0.2.7".to_owned(), 6_000),
            (&"192.0.2.8".to_owned(), 1_000),
        ];
        assert_eq!(course.drops.sources(9), sources);
        course.step(at(22), false, false, &few);
        assert_eq!(
            (course.drops.packets(), course.duration()),
            (0, Duration::ZERO)
        );
    }

    #[test]
    fn number_of_sources_is_bounded_and_the_largest_stay() {
        let mut course = Course::default();
        course.step(
            at(2),
            true,
            false,
            &drops(Reason::Limit, "dns", "192.0.2.7", 9),
        );
        for source in 0..1_000 {
            let few = drops(Reason::Limit, "dns", &format!("10.0.0.{source}"), 1);
            course.step(at(4), true, false, &few);
        }
        assert_eq!(course.drops.by_source.len(), SOURCES);
        assert_eq!(course.drops.sources(1)[0].1, 9);
    }

    #[test]
    fn no_source_has_more_drops_than_all() {
        let mut late = drops(Reason::Limit, "dns", "192.0.2.7", 9);
        late.by_source.insert("192.0.2.7".to_owned(), 10);
        assert_eq!(late.sources(1)[0].1, 9);
    }

    #[test]
    fn drops_without_a_limit_name_none() {
        let banned = drops(Reason::Ban, "dns", "192.0.2.7", 5);
        assert_eq!((banned.reason(), banned.limit()), (Some(Reason::Ban), None));
    }
}
