//! Begins and ends of floods, for the history: of the helper process of `export` and `notify`.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{add, file::has_just};
use crate::{
    notify::watch::Alarm,
    show::units::{grouped, whole},
};

/// A flood: so many dropped packets per second, for this time.
#[derive(Clone, Copy, Debug)]
struct Rule {
    drops: u64,
    window: Duration,
}

/// An interface between two readings.
#[derive(Debug, Default)]
struct Course {
    alarm: Alarm,
    /// Dropped packets, and the time of the reading.
    last: Option<(u64, Duration)>,
    /// The time and the count before the first reading of the condition.
    begin: Option<(u64, Duration)>,
    peak: u64,
}

/// The floods that are under way.
#[derive(Debug)]
pub struct Floods {
    begun: Instant,
    rule: Rule,
    command: &'static str,
    courses: BTreeMap<String, Course>,
}

impl Default for Floods {
    /// Floods as `notify` has them without options.
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            rule: Rule {
                drops: 10_000,
                window: Duration::from_secs(10),
            },
            command: "export",
            courses: BTreeMap::new(),
        }
    }
}

impl Floods {
    /// Floods as the options of `notify` have them.
    pub fn of_notify(drops: u64, window: Duration) -> Self {
        Self {
            rule: Rule { drops, window },
            command: "notify",
            ..Self::default()
        }
    }

    /// Takes a reading: the packets that each interface has dropped so far. Writes what begins or ends.
    pub fn step(&mut self, dropped: impl IntoIterator<Item = (String, u64)>) {
        let now = self.begun.elapsed();
        for (interface, count) in dropped {
            let course = self.courses.entry(interface.clone()).or_default();
            let Some((event, detail)) = course.step(self.rule, now, count) else {
                continue;
            };
            if !has_just(&interface, event) {
                // The helper has no one to tell; the journal has the entry.
                let _ = add(&interface, event, self.command, &[detail], None);
            }
        }
    }
}

impl Course {
    fn step(&mut self, rule: Rule, now: Duration, count: u64) -> Option<(&'static str, String)> {
        let (before, then) = self.last.replace((count, now))?;
        let seconds = (now - then).as_secs_f64().max(1e-3);
        // A counter that restarted has grown by its whole value.
        let grown = count.checked_sub(before).unwrap_or(count);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate, which saturates"
        )]
        let rate = (grown as f64 / seconds).round() as u64;
        let holds = rate >= rule.drops;
        if holds {
            self.begin.get_or_insert((before.min(count), then));
            self.peak = self.peak.max(rate);
        }
        let told = self.alarm.step(now, holds, [rule.window, Duration::ZERO]);
        let (first, since) = self.begin.unwrap_or((count, now));
        match told {
            Some(true) => Some((
                "flood-begin",
                format!("{} packets/s dropped", grouped(self.peak)),
            )),
            Some(false) => {
                let told = format!(
                    "after {}: {} packets dropped, up to {}/s",
                    whole((now.saturating_sub(since).saturating_sub(rule.window)).as_secs_f64()),
                    grouped(count.saturating_sub(first)),
                    grouped(self.peak)
                );
                (self.begin, self.peak) = (None, 0);
                Some(("flood-end", told))
            }
            None => {
                if !holds && !self.alarm.is_on() {
                    (self.begin, self.peak) = (None, 0);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floods_begin_and_end_once() {
        let rule = Rule {
            drops: 100,
            window: Duration::from_secs(10),
        };
        let (mut course, mut count, mut told) = (Course::default(), 0, Vec::new());
        for second in (0..200).step_by(10) {
            count += if (50..100).contains(&second) {
                5_000
            } else {
                10
            };
            let event = course.step(rule, Duration::from_secs(second), count);
            told.extend(event.map(|(event, detail)| (second, event, detail)));
        }
        let events: Vec<_> = told
            .iter()
            .map(|(second, event, _)| (*second, *event))
            .collect();
        assert_eq!(events, [(60, "flood-begin"), (110, "flood-end")]);
        assert_eq!(told[0].2, "500 packets/s dropped");
        assert!(
            told[1].2.ends_with(": 25,020 packets dropped, up to 500/s"),
            "{told:?}"
        );
    }
}
