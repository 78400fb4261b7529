//! Limits how many rounds of a member are under way at once.
//!
//! An overloaded store gets fewer rounds at once, otherwise every answer would be too late. A late round is sent
//! again, which is more work. The answer time shows the length of the store's queue.

use std::{collections::HashMap, time::Duration};

use super::membership::Membership;
use crate::{
    host::Table,
    member::{Group, Round, SHARDS},
};

/// Slower answers are close to the agent's timeout of one second.
const LONG: Duration = Duration::from_millis(400);

#[derive(Debug)]
struct Pace {
    most: usize,
    window: usize,
    /// Answers since the window was changed.
    answers: usize,
    /// True if the pace was reduced on this connection.
    has_lapsed: bool,
}

impl Pace {
    /// Creates the fastest pace: `most` rounds at once.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            window: most,
            answers: 0,
            has_lapsed: false,
        }
    }

    pub fn window(&self) -> usize {
        self.window
    }

    /// Notes an answer that took `after`. The window changes by an eighth per window of answers.
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

    /// Notes that an answer did not come in time. The other rounds under way are as late.
    pub fn lapsed(&mut self, under_way: usize) {
        if !self.has_lapsed {
            self.window = (self.window.min(under_way) / 2).max(1);
            self.answers = 0;
            self.has_lapsed = true;
        }
    }

    pub fn begin_anew(&mut self) {
        self.has_lapsed = false;
    }
}

/// Maximum sources in the rounds under way, unless a single round has more. A store takes 0.2 seconds for this many,
/// and this process nearly as long to write them.
const AT_ONCE: usize = 50_000;

pub struct UnderWay {
    /// Number of sources of each round, by member and group.
    rounds: HashMap<(u64, Group), usize>,
    pace: Pace,
}

impl Default for UnderWay {
    fn default() -> Self {
        Self {
            rounds: HashMap::new(),
            pace: Pace::new(SHARDS as usize),
        }
    }
}

impl UnderWay {
    /// Begins anew with a new connection: answers from the old connection do not arrive.
    pub fn begin_anew(&mut self) {
        self.rounds.clear();
        self.pace.begin_anew();
    }

    /// Number of a member's rounds under way.
    pub fn of(&self, member: u64) -> usize {
        self.rounds.keys().filter(|(of, _)| *of == member).count()
    }

    /// Takes the rounds of a member that are not under way, as far as the pace allows. The oldest comes first, so that
    /// each has its turn.
    pub fn take(&mut self, member: &Membership<impl Table>) -> Vec<Round> {
        let room = self.pace.window().saturating_sub(self.of(member.id));
        let is_waiting = |round: &&Round| !self.rounds.contains_key(&(member.id, round.group));
        let mut waiting: Vec<_> = member.unanswered().filter(is_waiting).collect();
        waiting.sort_unstable_by_key(|round| round.number);
        let mut sources: usize = self.rounds.values().sum();
        let fits = |round: &&Round| {
            let is_first = sources == 0;
            sources += round.items.len();
            is_first || sources <= AT_ONCE
        };
        let taken = waiting.into_iter().take(room).take_while(fits);
        let taken: Vec<_> = taken.cloned().collect();
        let size = |round: &Round| ((member.id, round.group), round.items.len());
        self.rounds.extend(taken.iter().map(size));
        taken
    }

    /// Notes that a round was answered after `took`, or that its answer is no longer awaited.
    pub fn ended(&mut self, member: u64, group: Group, took: Option<Duration>) {
        match took {
            Some(took) => self.pace.answered(took),
            None => self.pace.lapsed(self.of(member)),
        }
        self.rounds.remove(&(member, group));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// The window and the answer time that result in the end. The store needs 5 ms per round, and `members` send as
    /// many as they may.
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
    fn answers_stay_timely_with_any_number_of_members() {
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
        // There are too many members: one round each is the minimum.
        assert_eq!(settled(1_000, 256).0, 1);
    }

    #[test]
    fn window_changes_after_its_last_answer() {
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
    fn one_delay_halves_the_window_once() {
        let mut pace = Pace::new(256);
        (0..20).for_each(|_| pace.lapsed(20));
        assert_eq!(pace.window(), 10);
        pace.begin_anew();
        pace.lapsed(10);
        assert_eq!(pace.window(), 5);
        // The window grows again.
        (0..256 * 256).for_each(|_| pace.answered(MILLI));
        assert_eq!(pace.window(), 256);
        let mut alone = Pace::new(1);
        alone.lapsed(0);
        alone.answered(900 * MILLI);
        assert_eq!(alone.window(), 1, "there is always one");
    }
}
