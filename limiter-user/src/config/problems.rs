//! Contradictions between settings that are each well-formed.

use std::collections::BTreeSet;

use limiter_common::abi::rules::PORTS_MAX;

use super::{
    Algorithm, Found, Invalid, Limit, Match, Scope, Settings, Unit,
    lists::{ALLOW, DENY, TIERS_MAX},
    matches::{Ports, Protocol},
    names,
    settings::{LIMITS_MAX, SOURCES_MAX},
};

/// A part of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The settings as a whole.
    Whole,
    /// The limits on control traffic.
    Control,
    /// The list with this name.
    List(String),
    /// The limit with this index.
    Limit(usize),
}

/// A contradiction between settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The part that the problem concerns.
    pub of: Part,
    /// The key that the problem concerns, as the configuration file names it.
    pub key: &'static str,
    /// The problem, and what to write.
    pub why: Invalid,
}

/// The problems among `checks`: whether there is one, its key, its message.
fn found(checks: impl IntoIterator<Item = (bool, &'static str, String)>) -> Vec<Found> {
    let wrong = checks.into_iter().filter(|(is_wrong, ..)| *is_wrong);
    wrong.map(|(_, key, why)| (key, Invalid(why))).collect()
}

impl Settings {
    /// All problems that do not depend on the interface.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |of: Part, found: Vec<Found>| {
            let found = found.into_iter();
            problems.extend(found.map(|(key, why)| Problem {
                of: of.clone(),
                key,
                why,
            }));
        };
        let fleet = self.fleet.as_deref().map(names::fleet);
        let fleet = fleet.and_then(Result::err).map(|why| ("fleet", why));
        add(Part::Whole, fleet.into_iter().collect());
        for list in &self.fleet_lists {
            add(Part::List(list.clone()), self.problems_of_shared(list));
        }
        add(Part::Whole, self.problems_of_the_whole());
        add(Part::Control, self.control.problems());
        let mut names = BTreeSet::new();
        for (index, limit) in self.limits.iter().enumerate() {
            let is_new = names.insert(&limit.name);
            add(
                Part::Limit(index),
                self.problems_among_limits(limit, is_new),
            );
            add(Part::Limit(index), limit.problems());
        }
        problems
    }

    /// Fails with the first problem, if there is one.
    pub fn check(&self) -> Result<(), Invalid> {
        match self.problems().into_iter().next() {
            Some(problem) => Err(problem.why),
            None => Ok(()),
        }
    }

    fn problems_of_the_whole(&self) -> Vec<Found> {
        let (limits, tiers) = (self.limits.len(), self.lists.tiers.len());
        let mut problems = found([
            (
                limits > LIMITS_MAX,
                "limit",
                format!("{limits} limits are too many: write at most {LIMITS_MAX}"),
            ),
            (
                !(1..=SOURCES_MAX).contains(&self.max_sources),
                "max_sources",
                format!("the table holds 1 to {SOURCES_MAX} sources: write a number in between"),
            ),
            (
                tiers > TIERS_MAX,
                "lists",
                format!(
                    "{tiers} lists beside allow and deny are too many: write at most {TIERS_MAX}"
                ),
            ),
        ]);
        let names = self.lists.tiers.keys();
        problems.extend(names.filter_map(|tier| Some(("lists", names::name(tier).err()?))));
        let new_sources = self.new_sources.and_then(|limit| limit.quota().err());
        problems.extend(new_sources.map(|why| ("new_sources", why)));
        problems
    }

    /// Problems of a list that a fleet shares.
    fn problems_of_shared(&self, list: &str) -> Vec<Found> {
        let is_missing = self.lists.all().all(|(name, _)| name != list);
        found([
            (
                is_missing,
                "scope",
                format!("there is no list '{list}' for a fleet to share: write it under [lists]"),
            ),
            (
                !is_missing && self.fleet.is_none(),
                "scope",
                no_fleet(&format!("list '{list}'")),
            ),
        ])
    }

    /// Problems of a limit with the other limits, the lists and the fleet.
    fn problems_among_limits(&self, limit: &Limit, is_new: bool) -> Vec<Found> {
        let Limit { name, matches, .. } = limit;
        let mut problems = match names::name(name) {
            Err(why) => vec![("name", why)],
            Ok(()) => found([(
                !is_new,
                "name",
                format!("two limits are called '{name}': write another name"),
            )]),
        };
        for (key, lists) in [("source", &matches.source), ("unless", &matches.unless)] {
            let unknown = lists.iter().filter_map(|list| self.knows(list).err());
            problems.extend(unknown.map(|why| (key, why)));
        }
        problems.extend(found([(
            limit.scope == Scope::Fleet && self.fleet.is_none(),
            "scope",
            no_fleet(&format!("limit '{name}'")),
        )]));
        problems
    }

    fn knows(&self, list: &str) -> Result<(), Invalid> {
        if list == ALLOW || list == DENY {
            return Err(Invalid(format!(
                "packets from sources on '{list}' never reach a limit: use a list with another name"
            )));
        }
        if self.lists.tiers.contains_key(list) {
            return Ok(());
        }
        Err(Invalid(format!(
            "there is no list '{list}': write it under [lists]"
        )))
    }
}

fn no_fleet(what: &str) -> String {
    format!(
        "{what} is shared by a fleet, but no fleet is named: write fleet = \"NAME\" at the top of the file, or scope = \"host\""
    )
}

impl Limit {
    /// The limit's problems that do not depend on the interface.
    fn problems(&self) -> Vec<Found> {
        let Self { rate, cost, .. } = self;
        let (is_shared, in_bits) = (self.scope == Scope::Fleet, rate.unit == Unit::Bytes);
        let cost_fits = *cost != Some(0) && (cost.is_none() || !in_bits);
        let mut problems = found([
            (
                is_shared && self.algorithm == Algorithm::FixedWindow,
                "algorithm",
                "a fleet cannot share a fixed window, which begins at a different time on each host: write \"token-bucket\", or scope = \"host\"".to_owned(),
            ),
            (
                is_shared && in_bits,
                "rate",
                format!("a fleet shares only rates in packets, and {rate} is in bits: write a rate as in 100/s, or scope = \"host\""),
            ),
            (
                *cost == Some(0),
                "cost",
                "packets with a cost of 0 would never be limited: write at least 1".to_owned(),
            ),
            (
                !cost_fits && *cost != Some(0),
                "cost",
                format!("a fixed cost goes with a rate in packets, and {rate} is in bits: leave the cost out, or write another rate"),
            ),
        ]);
        problems.extend(self.matches.problems());
        // Checked with the shortest frame, because the longest one depends on the interface.
        let (key, quota) = match self.burst.map(|burst| burst.for_rate(rate)) {
            Some(Err(why)) => ("burst", Err(why)),
            _ if !cost_fits => return problems,
            _ if cost.is_some() => ("cost", self.quota(1)),
            _ => ("burst", self.quota(1)),
        };
        problems.extend(quota.err().map(|why| (key, why)));
        problems
    }
}

impl Match {
    fn problems(&self) -> Vec<Found> {
        let ports = [
            ("destination_port", &self.destination_port),
            ("source_port", &self.source_port),
        ];
        let mut problems = found(ports.map(|(key, Ports(ports))| {
            let count = ports.len();
            let why = format!("{count} ports or ranges are too many for one limit: write at most {PORTS_MAX}, or two limits");
            (count > PORTS_MAX, key, why)
        }));
        let Some(protocol) = self.protocol else {
            return problems;
        };
        let only_tcp = self.tcp_flags.is_some() && protocol != Protocol::TCP;
        let has_ports = ports.iter().any(|(_, ports)| !ports.0.is_empty());
        problems.extend(found([
            (
                only_tcp,
                "protocol",
                format!("tcp_flags with protocol {protocol} never match: write protocol = \"tcp\", or leave it out"),
            ),
            (
                !only_tcp && has_ports && !protocol.has_ports(),
                "protocol",
                format!("protocol {protocol} has no ports: leave the ports out, or write tcp or udp"),
            ),
        ]));
        problems
    }
}
