//! Asking the store for the lists.

use std::time::{Duration, Instant};

/// Readings of the lists, which have numbers from 1 on: several may be under way at once.
#[derive(Debug, Default)]
pub struct Reading {
    /// The latest that was begun.
    pub begun: u64,
    /// The latest that has come.
    pub taken: u64,
    /// The latest that will not come any more.
    lost: u64,
    since: Option<Instant>,
    /// How long that one took.
    pub took: Duration,
}

impl Reading {
    /// Begins one. Returns its number.
    pub fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.since = Some(Instant::now());
        self.begun
    }

    /// Whether the latest is under way.
    pub fn is_under_way(&self) -> bool {
        self.taken.max(self.lost) < self.begun
    }

    /// Whatever is under way will not come.
    pub fn give_up(&mut self) {
        self.lost = self.begun;
    }

    /// One has come. Returns whether no later one was there before it.
    pub fn arrived(&mut self, number: u64) -> bool {
        let is_newest = number > self.taken;
        if is_newest {
            self.taken = number;
            self.took = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        }
        is_newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_was_overtaken_is_of_no_use() {
        let mut reading = Reading::default();
        assert!(!reading.is_under_way());
        let (first, second) = (reading.begin(), reading.begin());
        assert!(reading.is_under_way());
        assert!(reading.arrived(second));
        assert!(!reading.is_under_way());
        assert!(!reading.arrived(first));
        assert_eq!(reading.taken, second);
    }
}
