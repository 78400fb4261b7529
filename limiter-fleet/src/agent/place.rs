//! A member of a fleet, as the agent sees it: an attachment, and how far its exchange with the store is.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::{
    attached::Attached,
    force::Force,
    lists::{Clearing, Known},
    question::{Answer, reply},
};
use crate::{conflicts::Conflicts, host::Table, member::Group, quota, store::Changed};

/// How often a member says that it is there, and asks whether lists have changed.
pub const BEAT: Duration = Duration::from_millis(250);
/// Looks at the table.
#[derive(Debug)]
pub struct Looks {
    last: Instant,
    took: Duration,
    /// Between the last two.
    gap: Duration,
}

impl Looks {
    /// What takes no longer than this is done whatever is under way.
    const SHORT: Duration = Duration::from_millis(100);
    /// For so long at most, what takes longer waits until nothing is under way.
    const PATIENCE: Duration = Duration::from_secs(1);

    fn new(now: Instant) -> Self {
        Self {
            last: now,
            took: Duration::ZERO,
            gap: Duration::ZERO,
        }
    }

    /// Whether there may be one while answers are awaited.
    pub fn may_begin(&self, now: Instant) -> bool {
        self.took <= Self::SHORT || now.saturating_duration_since(self.last) >= Self::PATIENCE
    }

    /// There was one, and it took so long.
    pub fn done(&mut self, now: Instant, took: Duration) {
        self.gap = now.saturating_duration_since(self.last);
        (self.last, self.took) = (now, took);
    }

    /// How far they are apart, at least so far.
    fn apart(&self, now: Instant) -> Duration {
        self.gap.max(now.saturating_duration_since(self.last))
    }
}

/// A member, and what is known of its exchange.
pub struct Place<T> {
    /// The attachment.
    pub attached: Attached<T>,
    /// Its looks at the table.
    pub looks: Looks,
    /// What it is called in the store.
    pub label: String,
    /// What the fleet wants on its lists.
    pub known: Known,
    /// When rounds without an answer were sent for the first time.
    pub sent: HashMap<Group, Instant>,
    /// When the latest thing was sent that was answered.
    heard: Option<Instant>,
    /// The longest way there and back of late.
    trip: Duration,
    /// Whether the store has said how many members there are: without that nobody knows how deep in debt a bucket may be.
    pub is_counted: bool,
    /// Age of the oldest heartbeat among the members', now and one beat ago.
    oldest: [Duration; 2],
    /// How late what the others have charged may be heard of, as of then.
    late: (Duration, Instant),
    /// Until when members that are missing may only not have come back to the store.
    pub returning: Instant,
    /// When it says next that it is there.
    pub next_beat: Instant,
    /// Whether it has said so and has no answer yet.
    pub is_beating: bool,
    /// Since when it reads the fleet's lists, if it does.
    pub reading: Option<Instant>,
    /// How long the last reading has taken.
    pub read_took: Duration,
    /// How those were put in force.
    pub force: Force,
    /// What is to be taken out of the store.
    pub clearing: Clearing,
    /// Who waits for a change of lists to be in force.
    pub waiting: Vec<Waiting>,
    /// How others hold its limits otherwise.
    pub conflicts: Conflicts,
}

/// Who has changed a list.
pub struct Waiting {
    /// What that has come to.
    pub changed: Changed,
    /// Where to tell it.
    pub answer: Answer,
}

impl<T: Table> Place<T> {
    /// Of an attachment that was found just now.
    pub fn new(attached: Attached<T>, host: &str, now: Instant) -> Self {
        let label = printable(&format!("{host}/{}", attached.about().interface));
        Self {
            attached,
            looks: Looks::new(now),
            label,
            known: Known::default(),
            sent: HashMap::new(),
            heard: None,
            is_counted: false,
            trip: Duration::ZERO,
            oldest: [Duration::ZERO; 2],
            late: (Duration::ZERO, now),
            returning: now,
            next_beat: now,
            is_beating: false,
            reading: None,
            read_took: Duration::ZERO,
            force: Force::new(now),
            clearing: Clearing::default(),
            waiting: Vec::new(),
            conflicts: Conflicts::default(),
        }
    }

    /// Name of its fleet.
    pub fn fleet(&self) -> String {
        self.attached.about().fleet.clone()
    }

    /// A line about its interface.
    pub fn line(&self, text: &str) -> String {
        format!("{}: {text}", self.attached.about().interface)
    }

    /// There is a connection again. Until `returning`, members that are missing may only not have come back.
    pub fn begin_anew(&mut self, now: Instant, returning: Instant) {
        self.is_beating = false;
        self.reading = None;
        self.known.revision = None;
        self.next_beat = now;
        self.returning = returning;
    }

    /// The store says how old the oldest heartbeat is.
    pub fn heard_of(&mut self, oldest: Duration) {
        self.oldest = [oldest, self.oldest[0]];
    }

    /// The configuration of the attachment has changed, or may have.
    pub fn follow(&mut self, table: T) {
        let (before, now) = (self.attached.about(), table.about());
        if before.program != now.program {
            // Whoever has changed the settings may have taken off what the fleet had put there.
            self.known.is_pending = true;
        }
        if before.lists != now.lists {
            self.known.revision = None;
        }
        self.attached.refresh(table);
    }

    /// How old what is known of the others is, at most: they look at their tables every `interval` and send what they
    /// have found, and so does this one.
    pub fn staleness(&self, interval: Duration, now: Instant) -> Option<Duration> {
        let oldest = self.sent.values().min().copied();
        let fresh = self.heard?.min(oldest.unwrap_or(now));
        let ways = interval + interval.max(self.looks.apart(now)) + 2 * self.trip;
        let [oldest, before] = self.oldest;
        let silent = oldest.max(before).saturating_sub(2 * BEAT);
        Some(now.saturating_duration_since(fresh) + ways + silent)
    }

    /// How late what the others have charged may still be heard of. That is more than the staleness for a while after
    /// a fault: who was away tells of all that time, and not in the first moment.
    pub fn lateness(&mut self, interval: Duration, now: Instant) -> Duration {
        let most = quota::STALENESS.1;
        let Some(staleness) = self.staleness(interval, now) else {
            return most;
        };
        let (late, then) = self.late;
        let left = late.saturating_sub(now.saturating_duration_since(then));
        self.late = (staleness.min(most).max(left), now);
        self.late.0
    }

    /// Takes off the lists what is over, whether or not the store is there.
    pub fn expire(&mut self, now: Instant) {
        let over = self.known.expire(now);
        self.clearing.is_over(over, self.attached.hosts, now);
    }

    /// Whether somebody waits for what has been read.
    pub fn is_awaited(&self) -> bool {
        let read = self.known.revision;
        let mut waiting = self.waiting.iter();
        waiting.any(|waiting| Some(waiting.changed.revision) <= read)
    }

    /// Whether somebody waits for what has not been read.
    pub fn awaits_reading(&self) -> bool {
        let read = self.known.revision;
        let mut waiting = self.waiting.iter();
        waiting.any(|waiting| Some(waiting.changed.revision) > read && !waiting.answer.is_closed())
    }

    /// Tells those how it went who wait for what has been read, or `all`.
    pub fn answer_waiting(&mut self, result: &Result<(), String>, all: bool) {
        let read = self.known.revision;
        let came = |waiting: &mut Waiting| all || Some(waiting.changed.revision) <= read;
        for Waiting { changed, answer } in self.waiting.extract_if(.., came) {
            reply(answer, result.clone().map(|()| changed.prefixes));
        }
    }

    /// Something was answered that was sent then.
    pub fn answered(&mut self, sent: Instant) {
        self.heard = self.heard.max(Some(sent));
        // What was long ago counts less and less.
        self.trip = sent.elapsed().max(self.trip - self.trip / 16);
    }
}

/// As the store takes it.
pub fn printable(label: &str) -> String {
    let printable = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    label.chars().take(128).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_look_waits_for_what_is_under_way_but_not_for_ever() {
        let now = Instant::now();
        let later = |millis| now + Duration::from_millis(millis);
        let mut looks = Looks::new(now);
        looks.done(later(100), Duration::from_millis(30));
        assert!(looks.may_begin(later(200)));
        looks.done(later(200), Duration::from_millis(600));
        assert!(!looks.may_begin(later(1_100)));
        assert!(looks.may_begin(later(1_200)));
        // What is seen so seldom is as old as that.
        assert_eq!(looks.apart(later(200)), Duration::from_millis(100));
        assert_eq!(looks.apart(later(1_200)), Duration::from_secs(1));
        looks.done(later(1_300), Duration::from_millis(600));
        assert_eq!(looks.apart(later(1_400)), Duration::from_millis(1_100));
    }
}
