//! Packets a second, from two samples.

use std::time::Duration;

use crate::observe::{Interface, Limit, live::per_second};

/// Packets a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// That passed.
    pub passed: f64,
    /// That were over a limit, denied, and so on: dropped, or not because of shadow.
    pub dropped: f64,
}

/// Those of an interface and its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// All packets.
    pub all: Rate,
    /// Of each limit, in their order; none of one that has just come.
    pub limits: Vec<Option<Rate>>,
}

impl Rates {
    /// What came in `elapsed`.
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

/// Packets that passed, and that were over the limits. In shadow the latter are among the former too.
pub fn of_all(interface: &Interface) -> (u64, u64) {
    let verdicts = &interface.verdicts;
    let over = verdicts.dropped.packets + verdicts.would_drop.packets;
    (verdicts.passed.packets, over)
}

/// The same of a limit.
pub fn of_limit(limit: &Limit) -> (u64, u64) {
    let over = limit.dropped.packets + limit.would_drop.packets;
    (limit.passed.packets, over)
}

fn rate(old: (u64, u64), new: (u64, u64), elapsed: Duration) -> Rate {
    // Counters begin anew where a limit takes another one's slot.
    let grown = |old: u64, new: u64| per_second(new.saturating_sub(old), elapsed);
    Rate {
        passed: grown(old.0, new.0),
        dropped: grown(old.1, new.1),
    }
}
