//! When lists are put in force, and what is said of it.

use std::time::{Duration, Instant};

use ipnet::IpNet;

use crate::{host::DENY, text::show};

/// Putting lists in force: not more often than it is worth, whatever the store says.
#[derive(Debug)]
pub struct Force {
    rested: Instant,
    /// Since when another command has been in the way.
    busy: Option<Instant>,
    /// What was said of the last time.
    error: Option<String>,
    left_out: Vec<IpNet>,
}

impl Force {
    /// How long until what has failed is tried again.
    const AGAIN: Duration = Duration::from_secs(5);
    /// How long until it is tried again while another command is at work, and for how long that is nothing to be said.
    const BUSY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(8));
    /// What takes no longer than this is done as often as there is something to do.
    const SHORT: Duration = Duration::from_millis(250);

    /// Nothing has been done yet.
    pub fn new(now: Instant) -> Self {
        Self {
            rested: now,
            busy: None,
            error: None,
            left_out: Vec::new(),
        }
    }

    /// Whether it is time for more, where nobody waits.
    pub fn is_rested(&self, now: Instant) -> bool {
        now >= self.rested
    }

    /// The same, where somebody may wait: then only another command is in the way.
    pub fn is_due(&self, now: Instant, is_awaited: bool) -> bool {
        self.is_rested(now) || (is_awaited && self.busy.is_none())
    }

    /// Whether it may wait for another command to be done: the exchange goes on meanwhile.
    pub fn waits(&mut self, now: Instant) -> bool {
        let (again, patience) = Self::BUSY;
        self.rested = now + again;
        now.saturating_duration_since(*self.busy.get_or_insert(now)) < patience
    }

    /// It was tried. Returns what is to be said.
    pub fn done(
        &mut self,
        result: &Result<(), String>,
        left_out: Vec<IpNet>,
        took: Duration,
    ) -> Vec<String> {
        let mut said = Vec::new();
        // Half of the time at most goes into long lists that change all the time.
        let mut rest = (2 * took).saturating_sub(Self::SHORT);
        let error = result.as_ref().err();
        if let Some(error) = error {
            rest = rest.max(Self::AGAIN);
            if self.error.as_ref() != Some(error) {
                said.push(format!("the fleet's lists are not in force: {error}"));
            }
        }
        self.error = error.cloned();
        self.busy = None;
        self.rested = Instant::now() + rest;
        if let Some(first) = left_out.first().filter(|_| self.left_out != left_out) {
            let more = match left_out.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            said.push(format!(
                "{}{more} on the fleet's {DENY} is not in force here: the store's own address is in it, and this host would not hear that it is taken off again",
                show(first)
            ));
        }
        self.left_out = left_out;
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_command_is_waited_for() {
        let now = Instant::now();
        let mut force = Force::new(now);
        assert!(force.waits(now));
        assert!(!force.is_rested(now));
        assert!(force.is_rested(now + Duration::from_millis(50)));
        assert!(force.waits(now + Duration::from_secs(7)));
        assert!(!force.waits(now + Duration::from_secs(8)));
        force.done(&Ok(()), Vec::new(), Duration::ZERO);
        assert!(force.waits(now + Duration::from_secs(60)));
    }

    #[test]
    fn what_takes_long_is_not_done_all_the_time() {
        let now = Instant::now();
        let mut force = Force::new(now);
        assert!(force.is_rested(now));
        assert_eq!(
            force.done(&Ok(()), Vec::new(), Duration::from_millis(100)),
            [""; 0]
        );
        assert!(force.is_rested(Instant::now()));
        let store = vec!["0.0.0.0/0".parse().unwrap()];
        let said = force.done(&Ok(()), store.clone(), Duration::from_secs(60));
        assert!(said[0].contains("0.0.0.0/0"), "{said:?}");
        assert!(!force.is_rested(Instant::now() + Duration::from_secs(60)));
        let failed = Err("no".to_owned());
        assert_eq!(force.done(&failed, store.clone(), Duration::ZERO).len(), 1);
        assert_eq!(force.done(&failed, store, Duration::ZERO), [""; 0]);
        assert!(!force.is_rested(Instant::now()));
    }
}
