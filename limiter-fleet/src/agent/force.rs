//! Decides when lists are put in force, and reports the result.

use std::time::{Duration, Instant};

use ipnet::IpNet;

use crate::{host::DENY, text::show};

/// Limits how often lists are put in force, whatever the store sends.
#[derive(Debug)]
pub struct Force {
    rested: Instant,
    is_under_way: bool,
    error: Option<String>,
    left_out: Vec<IpNet>,
}

impl Force {
    /// Time until a retry after an error.
    const AGAIN: Duration = Duration::from_secs(5);
    /// Durations up to this need no pause between changes.
    const SHORT: Duration = Duration::from_millis(250);

    pub fn new(now: Instant) -> Self {
        Self {
            rested: now,
            is_under_way: false,
            error: None,
            left_out: Vec::new(),
        }
    }

    /// Returns true if the next change may begin, if no command waits.
    pub fn is_rested(&self, now: Instant) -> bool {
        now >= self.rested
    }

    /// Returns true if the next change may begin. One that a command waits for begins at once.
    pub fn is_due(&self, now: Instant, is_awaited: bool) -> bool {
        !self.is_under_way && (is_awaited || self.is_rested(now))
    }

    /// Notes that a change begins.
    pub fn begin(&mut self) {
        self.is_under_way = true;
    }

    /// Notes the result of an attempt. Returns lines to report.
    pub fn done(
        &mut self,
        result: &Result<(), String>,
        left_out: Vec<IpNet>,
        took: Duration,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        // Long lists that change all the time take at most half of the time.
        let mut rest = (2 * took).saturating_sub(Self::SHORT);
        let error = result.as_ref().err();
        if let Some(error) = error {
            rest = rest.max(Self::AGAIN);
            if self.error.as_ref() != Some(error) {
                lines.push(format!("the fleet's lists are not in force: {error}"));
            }
        }
        self.error = error.cloned();
        self.is_under_way = false;
        self.rested = Instant::now() + rest;
        if let Some(first) = left_out.first().filter(|_| self.left_out != left_out) {
            let more = match left_out.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            lines.push(format!(
                "{}{more} on the fleet's {DENY} is not in force here: it contains the store's own address, so this host would not hear of its removal",
                show(first)
            ));
        }
        self.left_out = left_out;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_or_failed_update_is_followed_by_a_pause() {
        let now = Instant::now();
        let mut force = Force::new(now);
        assert!(force.is_rested(now));
        assert_eq!(
            force.done(&Ok(()), Vec::new(), Duration::from_millis(100)),
            [""; 0]
        );
        assert!(force.is_rested(Instant::now()));
        let store = vec!["0.0.0.0/0".parse().unwrap()];
        let lines = force.done(&Ok(()), store.clone(), Duration::from_secs(60));
        assert!(lines[0].contains("0.0.0.0/0"), "{lines:?}");
        assert!(!force.is_rested(Instant::now() + Duration::from_secs(60)));
        let failed = Err("no".to_owned());
        assert_eq!(force.done(&failed, store.clone(), Duration::ZERO).len(), 1);
        assert_eq!(force.done(&failed, store, Duration::ZERO), [""; 0]);
        assert!(!force.is_rested(Instant::now()));
    }
}
