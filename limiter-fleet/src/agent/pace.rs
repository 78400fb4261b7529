//! How many rounds of a member may be under way at once.
//!
//! A store that has more to do than it can is told less at once, or it would answer nobody in time: what came too late is
//! told again, and is more work. The time that an answer takes says how long the store's queue is.

use std::time::Duration;

/// Answers that take longer are soon too late: an agent waits a second for them.
const LONG: Duration = Duration::from_millis(400);

/// The pace.
#[derive(Debug)]
pub struct Pace {
    most: usize,
    window: usize,
    /// Answers since the window was changed.
    answers: usize,
    /// Whether it was slowed down since there is this connection.
    has_lapsed: bool,
}

impl Pace {
    /// As quick as can be: `most` rounds at once.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            window: most,
            answers: 0,
            has_lapsed: false,
        }
    }

    /// Rounds that may be under way at once.
    pub fn window(&self) -> usize {
        self.window
    }

    /// An answer has come. The window follows it by an eighth for each windowful of answers.
    pub fn answered(&mut self, after: Duration) {
        self.answers += 1;
        if self.answers < self.window {
            return;
        }
        let step = (self.window / 8).max(1);
        self.window = if after < LONG {
            (self.window + step).min(self.most)
        } else {
            (self.window - step).max(1)
        };
        self.answers = 0;
    }

    /// No answer came in time. What else was under way then is of the same delay.
    pub fn lapsed(&mut self, under_way: usize) {
        if !self.has_lapsed {
            self.window = (self.window.min(under_way) / 2).max(1);
            self.answers = 0;
            self.has_lapsed = true;
        }
    }

    /// There is another connection.
    pub fn begin_anew(&mut self) {
        self.has_lapsed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// A store that needs 5 ms for a round, which `members` tell as much as they may: how long an answer takes in the end.
    fn settled(members: u32, rounds: usize) -> (usize, Duration) {
        let mut pace = Pace::new(rounds);
        let takes = |pace: &Pace| 5 * MILLI * members * u32::try_from(pace.window()).unwrap();
        for _ in 0..20_000 {
            let after = takes(&pace);
            if after > 1_000 * MILLI {
                pace.lapsed(pace.window());
                pace.begin_anew();
            } else {
                pace.answered(after);
            }
        }
        (pace.window(), takes(&pace))
    }

    #[test]
    fn answers_come_in_time_however_many_tell_the_store() {
        assert_eq!(settled(1, 16), (16, 80 * MILLI), "all at once");
        for members in [2, 10, 50, 80] {
            let (window, takes) = settled(members, 256);
            assert!(
                takes <= LONG * 5 / 4 + 5 * MILLI * members,
                "{members}: {takes:?}"
            );
            assert!(
                takes >= LONG / 2,
                "{members}: {takes:?}: idle, with {window}"
            );
        }
        // So many that one round of each is too much: there is nothing less.
        assert_eq!(settled(1_000, 256).0, 1);
    }

    #[test]
    fn the_window_follows_the_last_answer_of_it() {
        for (most, last, window) in [(64, 1, 36), (16, 399, 9), (16, 400, 7)] {
            let mut pace = Pace::new(most);
            pace.lapsed(most);
            let half = pace.window();
            for _ in 1..half {
                pace.answered(MILLI);
                assert_eq!(pace.window(), half, "before all have come");
            }
            pace.answered(last * MILLI);
            assert_eq!(pace.window(), window, "{last}");
        }
    }

    #[test]
    fn one_delay_is_one_delay() {
        let mut pace = Pace::new(256);
        (0..20).for_each(|_| pace.lapsed(20));
        assert_eq!(pace.window(), 10);
        pace.begin_anew();
        pace.lapsed(10);
        assert_eq!(pace.window(), 5);
        // And it comes back.
        (0..256 * 256).for_each(|_| pace.answered(MILLI));
        assert_eq!(pace.window(), 256);
        let mut alone = Pace::new(1);
        alone.lapsed(0);
        alone.answered(900 * MILLI);
        assert_eq!(alone.window(), 1, "there is always one");
    }
}
