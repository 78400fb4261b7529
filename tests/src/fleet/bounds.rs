//! Computes bounds on the packets that a bucket admits, if each packet's time is only known within an interval.
//!
//! All packets cost the same, and refused packets cost nothing. A bucket that decides about each packet at its latest
//! time, and charges it at its earliest time, admits the most packets. The opposite bucket admits the fewest. No
//! selection of packets within `burst + rate × t` is larger than the one that a bucket admits.

use std::ops::RangeInclusive;

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// Tokens per second; a divisor of 10^9, so that a token takes whole nanoseconds.
    pub rate: u64,
    /// Tokens of a full bucket.
    pub burst: u64,
}

impl Bucket {
    /// Nanoseconds that a token takes.
    fn cost(&self) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        assert_eq!(SECOND % self.rate, 0, "not whole nanoseconds");
        SECOND / self.rate
    }

    /// Bounds on the packets that a full bucket admits, if it decides about each within `(earliest, latest)`, in order.
    pub fn admits(&self, times: &[(u64, u64)]) -> RangeInclusive<u64> {
        let sorted = times.is_sorted_by(|earlier, two| earlier.0 <= two.0 && earlier.1 <= two.1);
        assert!(sorted, "times go back");
        let least = self.count(times.iter().copied());
        let most = self.count(times.iter().map(|(earliest, latest)| (*latest, *earliest)));
        least..=most
    }

    /// Decides about each packet at its first time, and charges it at its second time.
    fn count(&self, times: impl Iterator<Item = (u64, u64)>) -> u64 {
        let (cost, mut arrival, mut admitted) = (self.cost(), 0_u64, 0);
        for (decided, charged) in times {
            if arrival + cost <= decided + self.burst * cost {
                arrival = arrival.max(charged) + cost;
                admitted += 1;
            }
        }
        admitted
    }

    /// Tokens of a full bucket and its refill in this time: the allowance of a fleet.
    pub fn tokens(&self, nanoseconds: u64) -> f64 {
        self.burst as f64 + nanoseconds as f64 / self.cost() as f64
    }
}
