//! The clock of a limiter that sees a capture's packets: it does not go back, and its gaps are bounded.

/// Nanoseconds of a day, and of a year.
const DAY: u64 = 86_400_000_000_000;
/// The longest time without packets, in nanoseconds, and up to a day more. All buckets are full after it, and a bucket can
/// still tell that time has passed: its own clock wraps after 2.28 years.
const GAP_MAX: u64 = 365 * DAY;

/// Times that were not taken from the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Gaps between packets that were shortened to a year.
    pub long_gaps: u64,
    /// Packets with an earlier time than the one before. They got its time.
    pub earlier: u64,
    /// The longest time by which such a packet is earlier, in nanoseconds.
    pub earliest_by: u64,
}

/// The clock.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The latest time in the capture so far; none before the first packet.
    latest: Option<u64>,
    /// Nanoseconds by which gaps were shortened.
    removed: u64,
    pub times: Times,
}

impl Clock {
    /// The clock's time at the packet with this time in the capture.
    pub fn see(&mut self, time: u64) -> u64 {
        let latest = self.latest.unwrap_or(time);
        if time < latest {
            self.times.earlier += 1;
            self.times.earliest_by = self.times.earliest_by.max(latest - time);
        } else if time - latest > GAP_MAX + DAY {
            self.times.long_gaps += 1;
            // Windows of fixed length begin at the same time of a day, so only whole days are removed.
            self.removed += (time - latest - GAP_MAX) / DAY * DAY;
        }
        let latest = latest.max(time);
        self.latest = Some(latest);
        latest - self.removed
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, DAY, GAP_MAX, Times};

    #[test]
    fn long_gaps_count_as_a_year_and_time_does_not_go_back() {
        let mut clock = Clock::default();
        let now = 47 * GAP_MAX + DAY / 3;
        for (time, wanted, times) in [
            (7, 7, (0, 0, 0)),
            // The fraction of the day stays.
            (now, GAP_MAX + DAY / 3, (1, 0, 0)),
            (now - 1, GAP_MAX + DAY / 3, (1, 1, 1)),
            (now + 5, GAP_MAX + DAY / 3 + 5, (1, 1, 1)),
            (5, GAP_MAX + DAY / 3 + 5, (1, 2, now)),
            (now + 5 + GAP_MAX, 2 * GAP_MAX + DAY / 3 + 5, (1, 2, now)),
        ] {
            assert_eq!(clock.see(time), wanted, "{time}");
            let Times {
                long_gaps,
                earlier,
                earliest_by,
            } = clock.times;
            assert_eq!((long_gaps, earlier, earliest_by), times, "{time}");
        }
    }
}
