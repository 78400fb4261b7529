//! The clock of a capture, made one that never goes back.
//!
//! Packets that several CPUs or interfaces have captured stand a little out of order, and a host's clock may
//! be set while it captures. The clock that a limiter reads does neither.

/// What is out of order by more than this, in nanoseconds, was not captured in another order: the clock was
/// set back.
const OUT_OF_ORDER: u64 = 1_000_000_000;

/// The time of the packets so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    last: u64,
    /// By how much the capture's clock was set back.
    behind: u64,
    set_back: u64,
}

impl Clock {
    /// The moment of a packet that says `time` (nanoseconds): never before the one before. Where it is out of
    /// order it counts as of that moment; where the clock was set back, time goes on from there.
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

    /// The time that a packet would have to say to come at the same moment as the last one.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last - self.behind.min(self.last)
    }

    /// How often it was set back.
    #[must_use]
    pub fn set_back(&self) -> u64 {
        self.set_back
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, OUT_OF_ORDER};

    #[test]
    fn a_little_out_of_order_is_the_same_moment() {
        let mut clock = Clock::default();
        assert_eq!(clock.at(5_000_000_000), 5_000_000_000);
        assert_eq!(clock.at(5_000_000_000 - OUT_OF_ORDER), 5_000_000_000);
        assert_eq!(clock.at(5_000_000_001), 5_000_000_001);
        assert_eq!(clock.set_back(), 0);
    }

    #[test]
    fn a_clock_that_is_set_back_goes_on() {
        let mut clock = Clock::default();
        assert_eq!(clock.at(9_000_000_000), 9_000_000_000);
        assert_eq!(clock.at(1_000_000_000), 9_000_000_000);
        assert_eq!(clock.at(1_000_000_007), 9_000_000_007);
        assert_eq!(clock.at(clock.last()), 9_000_000_007);
        assert_eq!(clock.set_back(), 1);
    }
}
