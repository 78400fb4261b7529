//! The clock of a capture, corrected so that it never goes back.
//!
//! Packets captured by several CPUs or interfaces may be slightly out of order. A host's clock may be set during the
//! capture. A limiter's clock does neither.

/// The maximum time by which packets may be out of order, in nanoseconds. More means that the clock was set back.
const OUT_OF_ORDER: u64 = 1_000_000_000;

/// The corrected time of the packets so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    last: u64,
    /// Nanoseconds by which the capture's clock was set back in total.
    behind: u64,
    set_back: u64,
}

impl Clock {
    /// The corrected time of a packet with the time `time` (nanoseconds). It is never before the previous packet's. A
    /// packet out of order gets the previous packet's time. After the clock was set back, time continues from there.
    pub fn at(&mut self, time: u64) -> u64 {
        let now = time.saturating_add(self.behind);
        if now >= self.last {
            self.last = now;
        } else if self.last - now > OUT_OF_ORDER {
            self.behind = self.behind.saturating_add(self.last - now);
            self.set_back += 1;
        }
        self.last
    }

    /// The uncorrected time of a packet at the corrected time of the last one.
    pub fn last(&self) -> u64 {
        self.last - self.behind.min(self.last)
    }

    /// Number of times that the clock was set back.
    pub fn set_back(&self) -> u64 {
        self.set_back
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, OUT_OF_ORDER};

    #[test]
    fn slightly_reordered_packets_get_the_same_time() {
        let mut clock = Clock::default();
        assert_eq!(clock.at(5_000_000_000), 5_000_000_000);
        assert_eq!(clock.at(5_000_000_000 - OUT_OF_ORDER), 5_000_000_000);
        assert_eq!(clock.at(5_000_000_001), 5_000_000_001);
        assert_eq!(clock.set_back(), 0);
    }

    #[test]
    fn capture_time_continues_after_the_clock_is_set_back() {
        let mut clock = Clock::default();
        assert_eq!(clock.at(9_000_000_000), 9_000_000_000);
        assert_eq!(clock.at(1_000_000_000), 9_000_000_000);
        assert_eq!(clock.at(1_000_000_007), 9_000_000_007);
        assert_eq!(clock.at(clock.last()), 9_000_000_007);
        assert_eq!(clock.set_back(), 1);
    }
}
