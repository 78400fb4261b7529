//! The differences between two settings, in words.

mod depth;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use super::{Limit, Lists, NewSources, Scope, Settings, lists::Prefixes, or_none::NONE};
use depth::Depth;

/// One line for each difference, on an interface with frames of up to `frame_max` bytes. Empty if there is none.
pub fn difference(old: &Settings, new: &Settings, frame_max: u64) -> Vec<String> {
    let mut changes = Vec::new();
    let exempt = |settings: &Settings| match settings.exempt.names().join(",") {
        names if names.is_empty() => "nothing".to_owned(),
        names => names,
    };
    let malformed = [old, new].map(|settings| settings.malformed.name());
    let fleet = |settings: &Settings| settings.fleet.clone().unwrap_or(NONE.to_owned());
    new_sources(&mut changes, old.new_sources, new.new_sources);
    note(&mut changes, "exempt", [exempt(old), exempt(new)]);
    note(&mut changes, "shadow", [on(old.shadow), on(new.shadow)]);
    note(&mut changes, "malformed", malformed);
    note(&mut changes, "fleet", [fleet(old), fleet(new)]);
    limits(&mut changes, &old.limits, &new.limits, frame_max);
    if old.exempt.control && new.exempt.control {
        let (old, new) = (old.control.limits(), new.control.limits());
        limits_of(&mut changes, &old, &new, frame_max, true);
    }
    lists(&mut changes, &old.lists, &new.lists);
    for name in old.fleet_lists.union(&new.fleet_lists) {
        let scope = |settings: &Settings| match settings.fleet_lists.contains(name) {
            true => Scope::Fleet.name(),
            false => Scope::Host.name(),
        };
        note(
            &mut changes,
            &format!("{name}: scope"),
            [scope(old), scope(new)],
        );
    }
    changes
}

fn note<T: Display + PartialEq>(changes: &mut Vec<String>, what: &str, [from, to]: [T; 2]) {
    if from != to {
        changes.push(format!("{what} {from} -> {to}"));
    }
}

fn on(shadow: bool) -> &'static str {
    if shadow { "on" } else { "off" }
}

fn new_sources(changes: &mut Vec<String>, old: Option<NewSources>, new: Option<NewSources>) {
    let shown = |limit: NewSources| format!("{} burst {}", limit.rate, limit.burst());
    match (old, new) {
        (Some(old), Some(new)) => {
            let of_limit = Depth::of_new_sources(old).change(&Depth::of_new_sources(new));
            let named = of_limit
                .into_iter()
                .map(|change| format!("new sources: {change}"));
            changes.extend(named);
        }
        (Some(old), None) => changes.push(format!("new sources {} -> none (looser)", shown(old))),
        (None, Some(new)) => changes.push(format!("new sources none -> {} (tighter)", shown(new))),
        (None, None) => {}
    }
}

fn limits(changes: &mut Vec<String>, old: &[Limit], new: &[Limit], frame_max: u64) {
    // A single limit needs no name.
    limits_of(changes, old, new, frame_max, new.len() != 1);
    let names = |limits: &[Limit]| -> Vec<_> {
        let names = limits.iter().map(|limit| limit.name.clone());
        names.collect()
    };
    if changes.is_empty() && names(old) != names(new) {
        changes.push("order of the limits".to_owned());
    }
}

/// The differences of each limit, with its name in front if `with_names`.
fn limits_of(
    changes: &mut Vec<String>,
    old: &[Limit],
    new: &[Limit],
    frame_max: u64,
    with_names: bool,
) {
    let named = |limits: &[Limit], name: &str| limits.iter().any(|limit| limit.name == name);
    let gone = old.iter().filter(|limit| !named(new, &limit.name));
    changes.extend(gone.map(|limit| format!("limit {} gone", limit.name)));
    for limit in new {
        let Limit { name, rate, .. } = limit;
        let Some(before) = old.iter().find(|limit| limit.name == *name) else {
            changes.push(format!("limit {name} new: {rate}"));
            continue;
        };
        let of_limit = one_limit(before, limit, frame_max).into_iter();
        changes.extend(of_limit.map(|change| match with_names {
            true => format!("{name}: {change}"),
            false => change,
        }));
    }
}

fn one_limit(old: &Limit, new: &Limit, frame_max: u64) -> Vec<String> {
    let [before, after] = [old, new].map(|limit| Depth::of_limit(limit, frame_max));
    let mut changes = before.change(&after);
    let cost = |limit: &Limit| {
        limit
            .cost
            .map_or("by unit".to_owned(), |cost| cost.to_string())
    };
    let algorithm = [old, new].map(|limit| limit.algorithm.name());
    note(&mut changes, "cost", [cost(old), cost(new)]);
    note(&mut changes, "shadow", [on(old.shadow), on(new.shadow)]);
    note(&mut changes, "algorithm", algorithm);
    note(&mut changes, "scope", [old.scope.name(), new.scope.name()]);
    if old.key != new.key {
        changes.push(format!("key {} -> {}, with new buckets", old.key, new.key));
    }
    if old.matches != new.matches {
        changes.push("match".to_owned());
    }
    changes
}

fn lists(changes: &mut Vec<String>, old: &Lists, new: &Lists) {
    let none = Prefixes::new();
    let [old, new] = [old, new].map(|lists| lists.all().collect::<BTreeMap<_, _>>());
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    for name in names {
        let [before, after] = [&old, &new].map(|lists| *lists.get(name).unwrap_or(&&none));
        let added = after.difference(before).count();
        let removed = before.difference(after).count();
        if added + removed > 0 {
            changes.push(format!("{name}: {added} added, {removed} removed"));
        }
    }
}
