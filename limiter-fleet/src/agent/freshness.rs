//! The age of a member's knowledge of the others.

use std::time::{Duration, Instant};

use crate::shared_quota;

/// Interval of a member's heartbeats, which also ask whether lists have changed.
pub const BEAT: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub struct Freshness {
    /// Interval of scans and exchanges, here and on the other hosts.
    interval: Duration,
    last_scan: Instant,
    /// Time between the last two scans.
    gap: Duration,
    /// Time of the scan that the unanswered exchange is about.
    exchange: Option<Instant>,
    /// Time at which the exchange was first sent on the present connection.
    pub began: Option<Instant>,
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
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self {
            interval,
            last_scan: now,
            gap: Duration::ZERO,
            exchange: None,
            began: None,
            heard: None,
            trip: Duration::ZERO,
            oldest: [Duration::ZERO; 2],
            late: (Duration::ZERO, now),
        }
    }

    /// Notes a scan. `has_begun`: it has begun an exchange.
    pub fn scanned(&mut self, now: Instant, has_begun: bool) {
        self.gap = now.saturating_duration_since(self.last_scan);
        self.last_scan = now;
        if has_begun {
            self.exchange = Some(now);
        }
    }

    /// Notes that a round was answered. `is_last`: the exchange is over.
    pub fn exchanged(&mut self, is_last: bool) {
        if let Some(began) = self.began {
            self.answered(began);
        }
        if is_last {
            (self.exchange, self.began) = (None, None);
        }
    }

    fn answered(&mut self, sent: Instant) {
        self.heard = self.heard.max(Some(sent));
        // Older times have less and less weight.
        self.trip = sent.elapsed().max(self.trip - self.trip / 16);
    }

    /// Notes that the heartbeat of the time `sent` was answered, with the age of the members' oldest one.
    pub fn beaten(&mut self, sent: Instant, oldest: Duration) {
        self.answered(sent);
        self.oldest = [oldest, self.oldest[0]];
    }

    /// The maximum age of this host's knowledge of the others. Other hosts scan their tables and send the results in
    /// equal intervals, and so does this host.
    pub fn staleness(&self, now: Instant) -> Option<Duration> {
        let fresh = self.heard?.min(self.exchange.unwrap_or(now));
        let since_scan = now.saturating_duration_since(self.last_scan);
        let ways = self.interval + self.interval.max(self.gap).max(since_scan) + 2 * self.trip;
        let [oldest, before] = self.oldest;
        let silent = oldest.max(before).saturating_sub(2 * BEAT);
        Some(now.saturating_duration_since(fresh) + ways + silent)
    }

    /// The maximum delay with which packets of other hosts may arrive. For a while after a fault, it is more than the
    /// staleness, because returning hosts report all packets of that time.
    pub fn lateness(&mut self, now: Instant) -> Duration {
        let most = *shared_quota::STALENESS.end();
        let Some(staleness) = self.staleness(now) else {
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
    fn unanswered_exchange_and_long_scans_make_knowledge_stale() {
        let now = Instant::now();
        let later = |millis| now + Duration::from_millis(millis);
        let mut freshness = Freshness::new(Duration::from_millis(100), now);
        let stale = |freshness: &Freshness, millis| freshness.staleness(later(millis));
        assert_eq!(stale(&freshness, 100), None);
        freshness.scanned(later(100), true);
        freshness.heard = Some(later(100));
        let millis =
            |freshness: &Freshness, millis| stale(freshness, millis).map(|stale| stale.as_millis());
        assert_eq!(millis(&freshness, 100), Some(200));
        // A heartbeat is answered, and the exchange is not. The table was not scanned again.
        freshness.heard = Some(later(1_100));
        assert_eq!(millis(&freshness, 1_100), Some(1_000 + 100 + 1_000));
        freshness.exchanged(true);
        assert_eq!(millis(&freshness, 1_100), Some(100 + 1_000));
        freshness.scanned(later(1_100), false);
        assert_eq!(millis(&freshness, 1_200), Some(100 + 100 + 1_000));
    }
}
