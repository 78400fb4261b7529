//! Decides when lists are put in force, and reports the result.

use std::time::{Duration, Instant};

use ipnet::IpNet;

use crate::{host::DENY, text::show};

/// Limits how often lists are put in force, whatever the store sends.
#[derive(Debug)]
pub struct Force {
    rested: Instant,
    /// Time at which the present change began.
    begun: Option<Instant>,
    error: Option<String>,
    left_out: Vec<IpNet>,
}

impl Force {
    /// Time until a retry after an error.
    const AGAIN: Duration = Duration::from_secs(5);
    /// A change that takes no longer needs no pause before the next one.
    const SHORT: Duration = Duration::from_millis(500);

    pub fn new(now: Instant) -> Self {
        Self {
            rested: now,
            begun: None,
            error: None,
            left_out: Vec::new(),
        }
    }

    /// Returns true if the next change may begin, if no command waits.
    pub fn is_rested(&self, now: Instant) -> bool {
        now >= self.rested
    }

    /// Begins a change. One that a command waits for begins at once. Returns false if it may not begin yet.
    pub fn begin(&mut self, now: Instant, is_awaited: bool) -> bool {
        let may_begin = self.begun.is_none() && (is_awaited || self.is_rested(now));
        if may_begin {
            self.begun = Some(now);
        }
        may_begin
    }

    /// Notes the result of a change. Returns lines to report.
    pub fn done(
        &mut self,
        result: &Result<(), String>,
        left_out: Vec<IpNet>,
        now: Instant,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        // Long lists that change all the time take at most half of the time.
        let begun = self.begun.take().unwrap_or(now);
        let mut rest = now.duration_since(begun).saturating_sub(Self::SHORT);
        let error = result.as_ref().err();
        if let Some(error) = error {
            rest = rest.max(Self::AGAIN);
            if self.error.as_ref() != Some(error) {
                lines.push(format!("the fleet's lists are not in force: {error}"));
            }
        }
        self.error = error.cloned();
        self.rested = now + rest;
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
        let later = |seconds| now + Duration::from_secs(seconds);
        let mut force = Force::new(now);
        assert!(force.begin(now, false));
        assert!(!force.begin(now, true), "under way");
        assert_eq!(force.done(&Ok(()), Vec::new(), now), [""; 0]);
        let store = vec!["0.0.0.0/0".parse().unwrap()];
        assert!(force.begin(now, false));
        let lines = force.done(&Ok(()), store.clone(), later(60));
        assert!(lines[0].contains("0.0.0.0/0"), "{lines:?}");
        assert!(!force.begin(later(119), false));
        assert!(force.begin(later(119), true), "a command waits");
        let failed = Err("no".to_owned());
        assert_eq!(force.done(&failed, store.clone(), later(119)).len(), 1);
        assert!(!force.is_rested(later(123)) && force.is_rested(later(124)));
        assert_eq!(force.done(&failed, store, later(124)), [""; 0]);
    }
}
