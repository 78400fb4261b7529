//! How many rounds of a member may be under way at once.
//!
//! A store that has more to do than it can is told less at once, or it would answer nobody in time: what came too late is
//! told again, and is more work. So it is with whoever shares a queue (compare TCP Vegas): the time that an answer
//! takes says how long the queue is.

use std::time::Duration;

/// Answers that come sooner than this leave room for more. On a long way: than one and a half times its length.
const SHORT: Duration = Duration::from_millis(150);
/// Answers that take longer are soon too late: an agent waits a second for them. On a long way: than twice its length.
const LONG: Duration = Duration::from_millis(400);
/// No way is taken for longer than this, there and back: the rest is a queue.
const WAY: Duration = Duration::from_millis(250);

/// The pace.
#[derive(Debug)]
pub struct Pace {
    most: usize,
    window: usize,
    /// Answers since the window was changed.
    answers: usize,
    /// The shortest time that an answer has taken since there is this connection.
    least: Duration,
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
            least: Duration::MAX,
            has_lapsed: false,
        }
    }

    /// Rounds that may be under way at once.
    pub fn window(&self) -> usize {
        self.window
    }

    /// An answer has come. The window follows it by an eighth for each windowful of answers.
    pub fn answered(&mut self, after: Duration) {
        self.least = self.least.min(after);
        self.answers += 1;
        if self.answers < self.window {
            return;
        }
        let way = self.least.min(WAY);
        let step = (self.window / 8).max(1);
        if after < SHORT.max(way * 3 / 2) {
            self.window = (self.window + step).min(self.most);
        } else if after > LONG.max(way * 2) {
            self.window = (self.window - step).max(1);
        }
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
        self.least = Duration::MAX;
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
                takes <= 2 * WAY + 5 * MILLI * members,
                "{members}: {takes:?}"
            );
            assert!(takes >= SHORT, "{members}: {takes:?}: idle, with {window}");
        }
        // So many that one round of each is too much: there is nothing less.
        assert_eq!(settled(1_000, 256).0, 1);
    }

    /// Rounds at once after a windowful of answers, the last of which took so long.
    fn after(pace: &mut Pace, soon: Duration, last: Duration) -> usize {
        let window = pace.window();
        for _ in 1..window {
            pace.answered(soon);
            assert_eq!(pace.window(), window, "before all have come");
        }
        pace.answered(last);
        pace.window()
    }

    #[test]
    fn the_window_follows_the_last_answer_of_it() {
        let half = |most| {
            let mut pace = Pace::new(most);
            pace.lapsed(most);
            pace.begin_anew();
            pace
        };
        assert_eq!(after(&mut half(64), MILLI, MILLI), 36, "an eighth of 32");
        for (soon, last, window) in [
            (1, 149, 9),
            (1, 150, 8),
            (1, 400, 8),
            (1, 401, 7),
            // A long way.
            (240, 359, 9),
            (240, 360, 8),
            (240, 480, 8),
            (240, 481, 7),
            // None is longer than a quarter of a second.
            (300, 374, 9),
            (300, 375, 8),
            (300, 500, 8),
            (300, 501, 7),
        ] {
            let window_now = after(&mut half(16), soon * MILLI, last * MILLI);
            assert_eq!(window_now, window, "{soon} ms, and then {last}");
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
    }

    #[test]
    fn a_long_way_is_no_queue() {
        let mut pace = Pace::new(16);
        pace.lapsed(16);
        pace.begin_anew();
        (0..16 * 16).for_each(|_| pace.answered(240 * MILLI));
        assert_eq!(pace.window(), 16);
    }

    #[test]
    fn there_is_always_one() {
        let mut pace = Pace::new(1);
        pace.lapsed(0);
        pace.answered(900 * MILLI);
        assert_eq!(pace.window(), 1);
    }
}
