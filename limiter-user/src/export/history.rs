//! Rates of the last two hours, for a page that is opened later. The memory is allocated at the start.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde::Serialize;

use crate::observe::{Count, Verdicts};

/// Time that the history covers.
const SPAN: Duration = Duration::from_secs(2 * 60 * 60);
/// Interval between two points of an interface, for up to `INTERFACES` interfaces.
pub const INTERVAL: Duration = Duration::from_secs(10);
/// Interfaces for which there is enough memory. With more, points are taken less often.
const INTERFACES: usize = 16;
/// Points of all interfaces together, 720 per interface.
const POINTS: usize = INTERFACES * 720;

const _: () = assert!(SPAN.as_secs() == 720 * INTERVAL.as_secs());
const _: () = assert!(POINTS * size_of::<Point>() <= 300 << 10);

/// Rates between two readings of one interface.
#[derive(Clone, Copy, Debug)]
struct Point {
    at_ms: u64,
    ifindex: u32,
    /// Passed, dropped, would drop, in packets per second. NaN: not known, because the counters were reset.
    rates: [f32; 3],
}

/// The counters of an interface at the last reading.
#[derive(Debug)]
struct Last {
    at_ms: u64,
    attached_at: String,
    verdicts: Verdicts,
}

/// The last two hours of all interfaces.
#[derive(Debug)]
pub struct History {
    points: VecDeque<Point>,
    last: BTreeMap<u32, Last>,
}

/// The rates of one interface, oldest first. A rate is null if it is not known.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Time of each point, on the clock of `limiter-read-at-ms`.
    read_at_ms: Vec<u64>,
    passed_packets_per_second: Vec<f32>,
    dropped_packets_per_second: Vec<f32>,
    would_drop_packets_per_second: Vec<f32>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            points: VecDeque::with_capacity(POINTS),
            last: BTreeMap::new(),
        }
    }
}

impl History {
    /// Adds a point for each interface: its index, the time of its attachment, and its packets. Returns the time to wait
    /// before the next points.
    pub fn add(
        &mut self,
        at: Duration,
        seen: impl Iterator<Item = (u32, String, Verdicts)>,
    ) -> Duration {
        let at_ms = millis(at);
        let oldest = at_ms.saturating_sub(millis(SPAN));
        while self
            .points
            .front()
            .is_some_and(|point| point.at_ms < oldest)
        {
            self.points.pop_front();
        }
        let mut last = BTreeMap::new();
        for (ifindex, attached_at, verdicts) in seen {
            let now = Last {
                at_ms,
                attached_at,
                verdicts,
            };
            let rates = self
                .last
                .get(&ifindex)
                .map_or([f32::NAN; 3], |last| now.rates_since(last));
            if self.points.len() == POINTS {
                self.points.pop_front();
            }
            self.points.push_back(Point {
                at_ms,
                ifindex,
                rates,
            });
            last.insert(ifindex, now);
        }
        self.last = last;
        let times = self.last.len().div_ceil(INTERFACES).max(1);
        INTERVAL * u32::try_from(times).unwrap_or(u32::MAX)
    }

    /// The points of an interface.
    pub fn of(&self, ifindex: u32) -> Rates {
        let mut found = Rates::default();
        for point in self.points.iter().filter(|point| point.ifindex == ifindex) {
            let [passed, dropped, would_drop] = point.rates;
            found.read_at_ms.push(point.at_ms);
            found.passed_packets_per_second.push(passed);
            found.dropped_packets_per_second.push(dropped);
            found.would_drop_packets_per_second.push(would_drop);
        }
        found
    }
}

impl Last {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "drawn, not computed with"
    )]
    fn rates_since(&self, before: &Self) -> [f32; 3] {
        if before.attached_at != self.attached_at {
            return [f32::NAN; 3];
        }
        let seconds = self.at_ms.saturating_sub(before.at_ms).max(1) as f64 / 1_000.0;
        let (now, before) = (&self.verdicts, &before.verdicts);
        [
            (now.passed, before.passed),
            (now.dropped, before.dropped),
            (now.would_drop, before.would_drop),
        ]
        // A counter that has become smaller was reset to 0.
        .map(|(now, before): (Count, Count)| {
            let grown = now.packets.checked_sub(before.packets);
            (grown.unwrap_or(now.packets) as f64 / seconds) as f32
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 10_000;

    fn passed(packets: u64) -> Verdicts {
        Verdicts {
            passed: Count { packets, bytes: 0 },
            ..Verdicts::default()
        }
    }

    /// A history with a reading every `step` ms, of interfaces that pass 50 packets per second.
    fn filled(interfaces: u32, readings: u64, step: u64) -> History {
        let mut history = History::default();
        for reading in 0..readings {
            let at = reading * step;
            let seen = (0..interfaces).map(|index| (index, String::new(), passed(at / 20)));
            let _ = history.add(Duration::from_millis(at), seen);
        }
        history
    }

    #[test]
    fn history_covers_exactly_two_hours() {
        let interfaces = u32::try_from(INTERFACES).unwrap();
        let history = filled(interfaces, 2_000, STEP);
        for index in 0..interfaces {
            let rates = history.of(index);
            assert_eq!(rates.read_at_ms.len(), 720, "{index}");
            assert_eq!(rates.read_at_ms.last(), Some(&(1_999 * STEP)));
            assert_eq!(rates.passed_packets_per_second, vec![50.0; 720]);
        }
    }

    #[test]
    fn history_memory_is_fixed_for_any_number_of_interfaces() {
        let before = History::default().points.capacity();
        let mut history = filled(1_000, 50, STEP);
        assert_eq!(
            (history.points.len(), history.points.capacity()),
            (POINTS, before)
        );
        assert!(before * size_of::<Point>() <= 300 << 10);
        // With more interfaces there are fewer points, which still cover two hours.
        let seen = (0..100).map(|index| (index, String::new(), passed(0)));
        let wait = history.add(Duration::ZERO, seen);
        assert_eq!(wait, INTERVAL * 7);
        let rates = filled(100, 2_000, millis(wait)).of(99);
        let (first, last) = (rates.read_at_ms.first(), rates.read_at_ms.last());
        assert!(
            last.unwrap() - first.unwrap() >= millis(SPAN - wait),
            "{first:?} to {last:?}"
        );
        // Interfaces that are gone are removed.
        let _ = history.add(Duration::ZERO, std::iter::empty());
        assert!(history.last.is_empty());
    }

    #[test]
    fn new_attachment_has_no_rate_at_its_first_reading() {
        let mut history = History::default();
        let attached = |at: &str| at.to_owned();
        for (reading, (at, packets)) in [
            ("one", 100),
            ("one", 200),
            ("two", 900),
            ("two", 950),
            ("two", 30),
        ]
        .into_iter()
        .enumerate()
        {
            let seen = [(7, attached(at), passed(packets))];
            let _ = history.add(
                Duration::from_millis(reading as u64 * STEP),
                seen.into_iter(),
            );
        }
        let json = serde_json::to_value(history.of(7)).unwrap();
        let rates = &json["passed_packets_per_second"];
        assert_eq!(*rates, serde_json::json!([null, 10.0, null, 5.0, 3.0]));
        assert_eq!(history.of(8), Rates::default());
    }
}
