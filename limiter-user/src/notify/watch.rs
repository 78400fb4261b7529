//! Decides what has begun or ended. Time is an argument.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use limiter_common::policy::verdict::Reason;
use limiter_kernel::sys::clock;

use super::{
    course::{Course, Drops},
    event::{DroppedSource, Event, SOURCES, Subject},
};
use crate::{
    export::Reading,
    observe::{Interface, Top, own_name},
};

/// The events that are told, and when.
#[derive(Debug)]
pub struct Rules {
    /// The interfaces; empty: all that limiter is attached to.
    pub interfaces: Vec<String>,
    /// The events: some of `flood`, `table-full` and `detached`.
    pub on: Vec<String>,
    /// Dropped packets per second that are a flood.
    pub drops: u64,
    /// Percentage at which the table of sources is nearly full.
    pub full: u64,
    /// Time for which a condition must last, or be over, before it is told.
    pub window: Duration,
    /// Time after the end of an event in which the same event does not begin again.
    pub pause: Duration,
}

/// A condition that is told once when it begins, and once when it ends.
#[derive(Debug, Default)]
pub struct Alarm {
    on: bool,
    differs: Option<Duration>,
    quiet_until: Duration,
}

impl Alarm {
    /// Returns true between the beginning and the end.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Takes the condition at `now`. Returns it if it has begun (true), or ended (false), and lasted for `window`.
    /// Nothing begins within `pause` after an end.
    pub fn step(&mut self, now: Duration, holds: bool, times: [Duration; 2]) -> Option<bool> {
        let [window, pause] = times;
        if holds == self.on {
            self.differs = None;
            return None;
        }
        let since = *self.differs.get_or_insert(now);
        if now - since < window || holds && now < self.quiet_until {
            return None;
        }
        (self.on, self.differs, self.quiet_until) = (holds, None, now + pause);
        Some(holds)
    }
}

/// A condition of an interface.
#[derive(Debug, Default)]
struct Watched {
    alarm: Alarm,
    course: Course,
}

/// The watched interfaces.
#[derive(Debug, Default)]
pub struct Watch {
    names: BTreeSet<String>,
    watched: BTreeMap<(String, String), Watched>,
    last: Option<Arc<Reading>>,
}

impl Watch {
    /// Returns what has begun or ended.
    pub fn step(&mut self, rules: &Rules, reading: Arc<Reading>) -> Vec<Event> {
        let attached = reading.snapshot.status.interfaces.iter();
        let attached = attached.filter(|_| rules.interfaces.is_empty());
        let names = attached
            .map(|interface| &interface.name)
            .chain(&rules.interfaces);
        self.names.extend(names.cloned());
        let before = self.last.as_ref().map_or(reading.at, |last| last.at);
        let host = own_name();
        let mut events = Vec::new();
        for name in &self.names {
            let now = find(&reading, name);
            let last = self.last.as_ref().and_then(|last| find(last, name));
            let drops = last.zip(now).map(|(last, now)| Drops::between(last, now));
            let rate = drops.as_ref().map(|drops| {
                let rate = drops.packets() as f64 / (reading.at - before).as_secs_f64();
                rate.round()
            });
            let drops = drops.unwrap_or_default();
            let percent =
                now.map(|(now, _)| 100 * now.sources.entries / now.sources.capacity.max(1));
            for condition in &rules.on {
                let holds = match condition.as_str() {
                    "flood" => rate.is_some_and(|rate| rate >= rules.drops as f64),
                    "table-full" => percent >= Some(rules.full),
                    _ => now.is_none(),
                };
                let key = (name.clone(), condition.clone());
                let Watched { alarm, course } = self.watched.entry(key).or_default();
                course.step([before, reading.at], holds, alarm.on, &drops);
                let times = [rules.window, rules.pause];
                let Some(begins) = alarm.step(reading.at, holds, times) else {
                    continue;
                };
                let subject = Subject {
                    host: &host,
                    interface: name,
                    condition,
                    begins,
                };
                let all = &course.drops;
                let sources = all.sources(SOURCES).into_iter();
                let sources = sources.map(|(source, dropped_packets)| DroppedSource {
                    source: source.clone(),
                    dropped_packets,
                });
                events.push(Event {
                    event: condition.clone(),
                    state: if begins { "begin" } else { "end" },
                    host: host.clone(),
                    interface: name.clone(),
                    time: clock::shown(SystemTime::now()),
                    subject: subject.words(),
                    text: subject.text(course, percent),
                    next: subject.next(),
                    drops_per_second: rate,
                    reason: all.reason().map(Reason::name),
                    limit: all.limit().map(str::to_owned),
                    sources: sources.collect(),
                    duration_seconds: course.duration().as_secs_f64(),
                    dropped_packets: all.packets(),
                    peak_drops_per_second: course.peak,
                    table_percent: percent,
                    status: now.map(|(now, _)| now.clone()),
                    explanation: None,
                });
                if !begins {
                    *course = Course::default();
                }
            }
        }
        self.last = Some(reading);
        events
    }
}

/// An interface of a reading, and its busiest sources.
fn find<'r>(reading: &'r Reading, name: &str) -> Option<(&'r Interface, &'r Top)> {
    let snapshot = &reading.snapshot;
    let mut attached = snapshot.status.interfaces.iter().zip(&snapshot.tops);
    attached.find(|(interface, _)| interface.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(10)];

    /// The changes that are told, with their seconds, if the condition holds in these seconds.
    fn told(holds: impl Fn(u64) -> bool, seconds: u64) -> Vec<(u64, bool)> {
        let mut alarm = Alarm::default();
        let change_at = |second| {
            Some((
                second,
                alarm.step(Duration::from_secs(second), holds(second), TIMES)?,
            ))
        };
        (0..seconds).filter_map(change_at).collect()
    }

    #[test]
    fn lasting_condition_is_told_once_at_each_end() {
        let holds = |second| (5..40).contains(&second);
        assert_eq!(told(holds, 100), [(8, true), (43, false)]);
    }

    #[test]
    fn condition_that_comes_and_goes_within_the_window_is_not_told() {
        assert_eq!(told(|second| second % 4 != 0, 100), []);
        // Nor does it end.
        let holds = |second| second < 10 || second % 4 == 0;
        assert_eq!(told(holds, 100), [(3, true)]);
    }

    #[test]
    fn nothing_begins_within_the_pause_after_an_end() {
        let holds = |second| !(10..20).contains(&second);
        // It ended at 13, began anew at 20, and is told when the pause is over.
        assert_eq!(told(holds, 100), [(3, true), (13, false), (23, true)]);
        // It is not told if it has ended by then.
        let holds = |second| second < 10 || (15..22).contains(&second);
        assert_eq!(told(holds, 100), [(3, true), (13, false)]);
    }
}
