//! The age of a member's knowledge of the others.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::{member::Group, quota};

/// Interval of a member's heartbeats, which also ask whether lists have changed.
pub const BEAT: Duration = Duration::from_millis(250);
/// Scans up to this duration run even while answers are awaited.
const SHORT: Duration = Duration::from_millis(100);
/// Longer scans wait for at most this time until no answers are awaited.
const PATIENCE: Duration = Duration::from_secs(1);

/// The times of a member's scans and messages.
#[derive(Debug)]
pub struct Freshness {
    last_scan: Instant,
    scan_took: Duration,
    /// Time between the last two scans.
    gap: Duration,
    /// Time at which each unanswered round was first sent.
    pub sent: HashMap<Group, Instant>,
    /// Time at which the latest answered message was sent.
    heard: Option<Instant>,
    /// The longest recent time from a message to its answer.
    trip: Duration,
    /// Age of the members' oldest heartbeat, now and one heartbeat ago.
    oldest: [Duration; 2],
    /// The lateness, and the time at which it was computed.
    late: (Duration, Instant),
}

impl Freshness {
    pub fn new(now: Instant) -> Self {
        Self {
            last_scan: now,
            scan_took: Duration::ZERO,
            gap: Duration::ZERO,
            sent: HashMap::new(),
            heard: None,
            trip: Duration::ZERO,
            oldest: [Duration::ZERO; 2],
            late: (Duration::ZERO, now),
        }
    }

    /// Returns true if a scan may begin while answers are awaited.
    pub fn may_scan(&self, now: Instant) -> bool {
        self.scan_took <= SHORT || now.saturating_duration_since(self.last_scan) >= PATIENCE
    }

    pub fn scanned(&mut self, now: Instant, took: Duration) {
        self.gap = now.saturating_duration_since(self.last_scan);
        (self.last_scan, self.scan_took) = (now, took);
    }

    /// Time between scans: between the last two, or since the last one if that is longer.
    fn between_scans(&self, now: Instant) -> Duration {
        self.gap.max(now.saturating_duration_since(self.last_scan))
    }

    pub fn answered(&mut self, sent: Instant) {
        self.heard = self.heard.max(Some(sent));
        // Older times have less and less weight.
        self.trip = sent.elapsed().max(self.trip - self.trip / 16);
    }

    pub fn oldest_is(&mut self, age: Duration) {
        self.oldest = [age, self.oldest[0]];
    }

    /// The maximum age of this host's knowledge of the others. Other hosts scan their tables every `interval` and send
    /// the results, and so does this host.
    pub fn staleness(&self, interval: Duration, now: Instant) -> Option<Duration> {
        let oldest = self.sent.values().min().copied();
        let fresh = self.heard?.min(oldest.unwrap_or(now));
        let ways = interval + interval.max(self.between_scans(now)) + 2 * self.trip;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scan_after_a_long_scan_waits_for_answers_for_a_limited_time() {
        let now = Instant::now();
        let later = |millis| now + Duration::from_millis(millis);
        let mut freshness = Freshness::new(now);
        freshness.scanned(later(100), Duration::from_millis(30));
        assert!(freshness.may_scan(later(200)));
        freshness.scanned(later(200), Duration::from_millis(600));
        assert!(!freshness.may_scan(later(1_100)));
        assert!(freshness.may_scan(later(1_200)));
        // The time between two scans counts until the next scan.
        let millis = |freshness: &Freshness, at| freshness.between_scans(later(at)).as_millis();
        assert_eq!(millis(&freshness, 200), 100);
        assert_eq!(millis(&freshness, 1_200), 1_000);
        freshness.scanned(later(1_300), Duration::from_millis(600));
        assert_eq!(millis(&freshness, 1_400), 1_100);
    }
}
