//! A member of a fleet in the agent: an attachment, and the state of its exchange with the store.

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

/// Interval of a member's heartbeats, which also ask whether lists have changed.
pub const BEAT: Duration = Duration::from_millis(250);
/// The times of the table's scans.
#[derive(Debug)]
pub struct Looks {
    last: Instant,
    took: Duration,
    /// Time between the last two scans.
    gap: Duration,
}

impl Looks {
    /// Scans up to this duration run even while answers are awaited.
    const SHORT: Duration = Duration::from_millis(100);
    /// Longer scans wait for at most this time until no answers are awaited.
    const PATIENCE: Duration = Duration::from_secs(1);

    fn new(now: Instant) -> Self {
        Self {
            last: now,
            took: Duration::ZERO,
            gap: Duration::ZERO,
        }
    }

    /// Whether a scan may begin while answers are awaited.
    pub fn may_begin(&self, now: Instant) -> bool {
        self.took <= Self::SHORT || now.saturating_duration_since(self.last) >= Self::PATIENCE
    }

    /// Notes a scan and its duration.
    pub fn done(&mut self, now: Instant, took: Duration) {
        self.gap = now.saturating_duration_since(self.last);
        (self.last, self.took) = (now, took);
    }

    /// Time between scans: between the last two, or since the last one if that is longer.
    fn apart(&self, now: Instant) -> Duration {
        self.gap.max(now.saturating_duration_since(self.last))
    }
}

/// A member, and the state of its exchange.
pub struct Place<T> {
    /// The attachment.
    pub attached: Attached<T>,
    /// The times of the table's scans.
    pub looks: Looks,
    /// Name of the member in the store.
    pub label: String,
    /// The fleet's entries on the lists.
    pub known: Known,
    /// When each unanswered round was sent for the first time.
    pub sent: HashMap<Group, Instant>,
    /// When the latest answered message was sent.
    heard: Option<Instant>,
    /// The longest recent time from a message to its answer.
    trip: Duration,
    /// Whether the store has reported the number of members. Without that number, the maximum debt of a bucket is not
    /// known.
    pub is_counted: bool,
    /// Age of the members' oldest heartbeat, now and one heartbeat ago.
    oldest: [Duration; 2],
    /// The lateness, and when it was computed. See [`Self::lateness`].
    late: (Duration, Instant),
    /// Until this time, missing members may not have come back to the store yet.
    pub returning: Instant,
    /// Time of the next heartbeat.
    pub next_beat: Instant,
    /// Whether a heartbeat is under way.
    pub is_beating: bool,
    /// When the present reading of the fleet's lists began, if there is one.
    pub reading: Option<Instant>,
    /// Duration of the last reading of lists.
    pub read_took: Duration,
    /// Controls when the lists are put in force.
    pub force: Force,
    /// Expired entries to remove from the store.
    pub clearing: Clearing,
    /// Commands that wait until a change of lists is in force.
    pub waiting: Vec<Waiting>,
    /// Limits whose settings differ on other hosts.
    pub conflicts: Conflicts,
}

/// A command that waits for a change of a list.
pub struct Waiting {
    /// The result of the change.
    pub changed: Changed,
    /// The channel for the answer.
    pub answer: Answer,
}

impl<T: Table> Place<T> {
    /// Creates the state of an attachment that was just found.
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

    /// Name of the member's fleet.
    pub fn fleet(&self) -> String {
        self.attached.about().fleet.clone()
    }

    /// Formats a line about the member's interface.
    pub fn line(&self, text: &str) -> String {
        format!("{}: {text}", self.attached.about().interface)
    }

    /// Begins anew with a new connection. Until `returning`, missing members may not have come back yet.
    pub fn begin_anew(&mut self, now: Instant, returning: Instant) {
        self.is_beating = false;
        self.reading = None;
        self.known.revision = None;
        self.next_beat = now;
        self.returning = returning;
    }

    /// Notes the age of the oldest heartbeat.
    pub fn heard_of(&mut self, oldest: Duration) {
        self.oldest = [oldest, self.oldest[0]];
    }

    /// Takes a changed configuration of the attachment.
    pub fn follow(&mut self, table: T) {
        let (before, now) = (self.attached.about(), table.about());
        if before.program != now.program {
            // The change of settings may have removed the fleet's entries.
            self.known.is_pending = true;
        }
        if before.lists != now.lists {
            self.known.revision = None;
        }
        self.attached.refresh(table);
    }

    /// The maximum age of this host's knowledge of the others. Other hosts scan their tables every `interval` and send
    /// the results, and so does this host.
    pub fn staleness(&self, interval: Duration, now: Instant) -> Option<Duration> {
        let oldest = self.sent.values().min().copied();
        let fresh = self.heard?.min(oldest.unwrap_or(now));
        let ways = interval + interval.max(self.looks.apart(now)) + 2 * self.trip;
        let [oldest, before] = self.oldest;
        let silent = oldest.max(before).saturating_sub(2 * BEAT);
        Some(now.saturating_duration_since(fresh) + ways + silent)
    }

    /// The maximum delay with which packets of other hosts may arrive. For a while after a fault, it is more than the
    /// staleness, because returning hosts report all packets of that time.
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

    /// Removes expired entries from the lists, whether or not the store answers.
    pub fn expire(&mut self, now: Instant) {
        let over = self.known.expire(now);
        self.clearing.is_over(over, self.attached.hosts, now);
    }

    /// Whether a command waits for a revision that has been read.
    pub fn is_awaited(&self) -> bool {
        let read = self.known.revision;
        let mut waiting = self.waiting.iter();
        waiting.any(|waiting| Some(waiting.changed.revision) <= read)
    }

    /// Whether a command waits for a revision that has not been read yet.
    pub fn awaits_reading(&self) -> bool {
        let read = self.known.revision;
        let mut waiting = self.waiting.iter();
        waiting.any(|waiting| Some(waiting.changed.revision) > read && !waiting.answer.is_closed())
    }

    /// Answers the commands that wait for a revision that has been read, or `all` commands.
    pub fn answer_waiting(&mut self, result: &Result<(), String>, all: bool) {
        let read = self.known.revision;
        let came = |waiting: &mut Waiting| all || Some(waiting.changed.revision) <= read;
        for Waiting { changed, answer } in self.waiting.extract_if(.., came) {
            reply(answer, result.clone().map(|()| changed.prefixes));
        }
    }

    /// Notes an answer to a message sent at `sent`.
    pub fn answered(&mut self, sent: Instant) {
        self.heard = self.heard.max(Some(sent));
        // Older times have less and less weight.
        self.trip = sent.elapsed().max(self.trip - self.trip / 16);
    }
}

/// Makes a label that the store accepts: replaces other characters by `?`, and cuts the label to 128.
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
        // The time between two scans counts until the next scan.
        assert_eq!(looks.apart(later(200)), Duration::from_millis(100));
        assert_eq!(looks.apart(later(1_200)), Duration::from_secs(1));
        looks.done(later(1_300), Duration::from_millis(600));
        assert_eq!(looks.apart(later(1_400)), Duration::from_millis(1_100));
    }
}
