//! Packets per second, from two samples.

use std::time::Duration;

use crate::observe::{Interface, Limit, live::per_second};

/// Packets per second by result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Packets that passed.
    pub passed: f64,
    /// Packets that were over a limit, denied, and so on: dropped, or passed because of shadow.
    pub dropped: f64,
}

/// The rates of an interface and its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// All packets.
    pub all: Rate,
    /// Rate of each limit, in the limits' order; none for a limit that is new.
    pub limits: Vec<Option<Rate>>,
}

impl Rates {
    /// The rates between two samples, `elapsed` apart.
    pub fn between(old: &Interface, new: &Interface, elapsed: Duration) -> Self {
        let of = |limit: &Limit| {
            let before = old.limits.iter().find(|old| old.name == limit.name)?;
            Some(rate(of_limit(before), of_limit(limit), elapsed))
        };
        Self {
            all: rate(of_all(old), of_all(new), elapsed),
            limits: new.limits.iter().map(of).collect(),
        }
    }
}

/// Packets that passed, and packets that were over the limits. In shadow, the latter are part of the former.
pub fn of_all(interface: &Interface) -> (u64, u64) {
    let verdicts = &interface.verdicts;
    let over = verdicts.dropped.packets + verdicts.would_drop.packets;
    (verdicts.passed.packets, over)
}

/// Packets of a limit that passed, and packets that were over it. In shadow, the latter are part of the former.
pub fn of_limit(limit: &Limit) -> (u64, u64) {
    let over = limit.dropped.packets + limit.would_drop.packets;
    (limit.passed.packets, over)
}

fn rate(old: (u64, u64), new: (u64, u64), elapsed: Duration) -> Rate {
    // Counters restart if a limit takes another limit's slot.
    let grown = |old: u64, new: u64| per_second(new.saturating_sub(old), elapsed);
    Rate {
        passed: grown(old.0, new.0),
        dropped: grown(old.1, new.1),
    }
}
