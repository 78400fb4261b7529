//! `watch --per-second`: a random sample of packets, of a bounded rate.

use std::time::{Duration, Instant};

/// The time between two choices of the sample.
const SECOND: Duration = Duration::from_secs(1);
/// The rarest sample: one packet in this many.
const RAREST: f64 = (1 << 20) as f64;

/// Thins packets out to so many per second.
pub struct Thinner {
    pub most: u64,
    since: Instant,
    seen: u64,
    /// Packets of the sample that were not reported before this second.
    lost: u64,
    /// One packet in this many is in the sample.
    one_in: f64,
}

impl Thinner {
    pub fn new(most: u64) -> Self {
        Self {
            most,
            since: Instant::now(),
            seen: 0,
            lost: 0,
            one_in: 1.0,
        }
    }

    /// Returns true if the next packet is shown.
    pub fn admits(&mut self) -> bool {
        self.seen += 1;
        self.seen <= self.most
    }

    /// Returns the next sample, if a second is over and it is another one. `lost`: packets of the sample that were not
    /// reported so far.
    pub fn next(&mut self, now: Instant, lost: u64) -> Option<f64> {
        if now.saturating_duration_since(self.since) < SECOND {
            return None;
        }
        let came = self.seen + lost.wrapping_sub(self.lost);
        (self.since, self.seen, self.lost) = (now, 0, lost);
        let before = self.one_in;
        let wanted = before * came as f64 / self.most as f64;
        self.one_in = match came {
            came if came > self.most => wanted.min(RAREST),
            came if came < self.most / 2 => (before / 2.0).max(1.0),
            _ => before,
        };
        (self.one_in != before).then_some(self.one_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_follows_the_rate_of_packets() {
        let mut thinner = Thinner::new(10);
        let admitted = (0..100).filter(|_| thinner.admits()).count();
        assert_eq!(admitted, 10);
        let begun = Instant::now();
        let second = |number| begun + number * SECOND;
        assert_eq!(thinner.next(Instant::now(), 900), None, "within the second");
        assert_eq!(thinner.next(second(2), 900), Some(100.0));
        assert!(thinner.admits());
        assert_eq!(thinner.next(second(4), 900), Some(50.0), "few came");
    }
}
