//! The rates of the last two hours, for the page. The memory is bounded: 8,640 bytes for each of at most 64 interfaces.

use std::{collections::VecDeque, time::Duration};

use serde::Serialize;

use crate::observe::Counted;

/// Time between two points.
pub const STEP: Duration = Duration::from_secs(10);
/// Points of an interface: two hours.
const POINTS: usize = 720;
/// Interfaces that are remembered. Further ones have no history.
const INTERFACES: usize = 64;

/// Packets per second, rounded to a tenth: those that passed, those that were dropped, and those that passed only because
/// of shadow. Not a number if the rate is not known.
type Rates = [f32; 3];

const UNKNOWN: Rates = [f32::NAN; 3];

/// The rates of all interfaces, one point for each step.
#[derive(Debug, Default)]
pub struct History {
    tracks: Vec<Track>,
    /// Time of the last point, since the exporter's start.
    at: Duration,
}

/// The rates of an interface. The last point is the newest.
#[derive(Debug)]
struct Track {
    counted: Option<Counted>,
    name: String,
    points: VecDeque<Rates>,
}

/// The history in JSON, with null for rates that are not known.
#[derive(Debug, Serialize)]
pub struct Shown<'h> {
    read_at_ms: u128,
    step_ms: u128,
    interfaces: Vec<Line<'h>>,
}

#[derive(Debug, Serialize)]
struct Line<'h> {
    name: &'h str,
    passed: Vec<f32>,
    dropped: Vec<f32>,
    would_drop: Vec<f32>,
}

impl History {
    /// Adds a point for each interface. `now`: time since the exporter's start. Steps that were missed are not known.
    pub fn add(&mut self, now: Duration, counted: Vec<Counted>) {
        let elapsed = now.saturating_sub(self.at).as_secs_f32();
        let steps = elapsed / STEP.as_secs_f32();
        let missed = (1..=POINTS).take_while(|step| *step as f32 + 0.5 < steps);
        let missed = missed.count();
        self.at = now;
        let mut counted = counted;
        for track in &mut self.tracks {
            for _ in 0..missed {
                track.push(UNKNOWN);
            }
            let place = counted.iter().position(|count| count.name == track.name);
            let count = place.map(|place| counted.swap_remove(place));
            let rates = match (&track.counted, &count) {
                (Some(before), Some(count)) => rates(before, count, elapsed),
                _ => UNKNOWN,
            };
            track.push(rates);
            track.counted = count;
        }
        self.tracks
            .retain(|track| track.counted.is_some() || !track.points.iter().all(is_unknown));
        let room = INTERFACES.saturating_sub(self.tracks.len());
        let new = counted.into_iter().take(room);
        self.tracks.extend(new.map(|count| Track {
            name: count.name.clone(),
            points: VecDeque::with_capacity(POINTS),
            counted: Some(count),
        }));
    }

    /// The history for the page.
    pub fn shown(&self) -> Shown<'_> {
        Shown {
            read_at_ms: self.at.as_millis(),
            step_ms: STEP.as_millis(),
            interfaces: self.tracks.iter().map(Track::shown).collect(),
        }
    }
}

impl Track {
    fn push(&mut self, rates: Rates) {
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(rates);
    }

    fn shown(&self) -> Line<'_> {
        let line = |index: usize| self.points.iter().map(|rates| rates[index]).collect();
        Line {
            name: &self.name,
            passed: line(0),
            dropped: line(1),
            would_drop: line(2),
        }
    }
}

fn is_unknown(rates: &Rates) -> bool {
    rates[0].is_nan()
}

/// The rates between two readings of the counters. A new attachment began at 0 at an unknown time.
fn rates(before: &Counted, now: &Counted, seconds: f32) -> Rates {
    if before.attached_at != now.attached_at || seconds <= 0.0 {
        return UNKNOWN;
    }
    let (before, now) = (&before.verdicts, &now.verdicts);
    let all = [
        (before.passed, now.passed),
        (before.dropped, now.dropped),
        (before.would_drop, now.would_drop),
    ];
    all.map(|(before, now)| {
        let packets = now.packets.saturating_sub(before.packets);
        (packets as f32 / seconds * 10.0).round() / 10.0
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::{Count, Verdicts};

    fn counted(name: &str, attached_at: &str, dropped: u64) -> Counted {
        let count = |packets| Count { packets, bytes: 0 };
        Counted {
            name: name.to_owned(),
            attached_at: attached_at.to_owned(),
            verdicts: Verdicts {
                passed: count(2 * dropped),
                dropped: count(dropped),
                ..Verdicts::default()
            },
        }
    }

    fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn shown(history: &History) -> Value {
        serde_json::to_value(history.shown()).unwrap()
    }

    #[test]
    fn points_are_rates_and_gaps_are_unknown() {
        let mut history = History::default();
        for (seconds, attached_at, dropped) in [
            (0, "a", 5),
            (10, "a", 1_005),
            (20, "a", 1_010),
            (50, "a", 1_040),
        ] {
            history.add(after(seconds), vec![counted("eth0", attached_at, dropped)]);
        }
        let expected = json!({
            "read_at_ms": 50_000, "step_ms": 10_000,
            "interfaces": [{
                "name": "eth0", "passed": [200.0, 1.0, null, null, 2.0],
                "dropped": [100.0, 0.5, null, null, 1.0], "would_drop": [0.0, 0.0, null, null, 0.0],
            }],
        });
        assert_eq!(shown(&history), expected);
        // Another attachment, and none.
        history.add(after(60), vec![counted("eth0", "b", 7)]);
        history.add(after(70), vec![]);
        history.add(after(80), vec![counted("eth0", "b", 17)]);
        history.add(after(90), vec![counted("eth0", "b", 27)]);
        let dropped = shown(&history)["interfaces"][0]["dropped"].take();
        let dropped: Vec<_> = dropped
            .as_array()
            .unwrap()
            .iter()
            .skip(5)
            .cloned()
            .collect();
        assert_eq!(json!(dropped), json!([null, null, null, 1.0]));
    }

    #[test]
    fn memory_is_bounded_for_any_number_of_interfaces_and_any_time() {
        let mut history = History::default();
        let bytes = |history: &History| {
            let tracks = history.tracks.iter();
            let points = tracks.map(|track| track.points.capacity() * size_of::<Rates>());
            points.sum::<usize>()
        };
        for step in 0..2_000 {
            let counted = (0..100).map(|number| counted(&format!("eth{number}"), "a", step));
            history.add(after(10 * step), counted.collect());
            assert!(bytes(&history) <= 64 * 8_640, "{}", bytes(&history));
        }
        let all = shown(&history);
        let interfaces = all["interfaces"].as_array().unwrap();
        assert_eq!(interfaces.len(), 64);
        assert!(
            interfaces
                .iter()
                .all(|line| line["passed"].as_array().unwrap().len() == 720)
        );
        // A sleep of a year is one gap of two hours. Then nothing is remembered, and others have room.
        history.add(after(40_000_000), vec![]);
        assert_eq!(shown(&history)["interfaces"], json!([]));
        history.add(after(40_000_010), vec![counted("new", "a", 1)]);
        assert_eq!(shown(&history)["interfaces"][0]["name"], "new");
    }
}
