//! The differences between two settings, in words.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use super::{Limit, Lists, NewSources, Prefixes, Scope, Settings, or_none::NONE};

/// One line for each difference, on an interface with frames of up to `frame_max` bytes. Empty if there is none.
pub fn difference(old: &Settings, new: &Settings, frame_max: u64) -> Vec<String> {
    let mut changes = Vec::new();
    let exempt = |settings: &Settings| match settings.exempt.names().join(",") {
        names if names.is_empty() => "nothing".to_owned(),
        names => names,
    };
    let fleet = |settings: &Settings| settings.fleet.clone().unwrap_or(NONE.to_owned());
    let [before, after] = [old, new].map(|settings| new_sources(settings.new_sources));
    limits_of(&mut changes, &before, &after, frame_max, true);
    if let (Some(old), Some(new)) = (old.new_sources, new.new_sources) {
        let second = [on(old.second_chance), on(new.second_chance)];
        note(&mut changes, "second chance", second);
    }
    note(&mut changes, "exempt", [exempt(old), exempt(new)]);
    note(&mut changes, "shadow", [on(old.shadow), on(new.shadow)]);
    note(&mut changes, "malformed", [old.malformed, new.malformed]);
    note(&mut changes, "fleet", [fleet(old), fleet(new)]);
    limits(&mut changes, &old.limits, &new.limits, frame_max);
    if old.exempt.control && new.exempt.control {
        let (old, new) = (old.control.limits(), new.control.limits());
        limits_of(&mut changes, &old, &new, frame_max, true);
    }
    lists(&mut changes, &old.lists, &new.lists);
    for name in old.fleet_lists.union(&new.fleet_lists) {
        let scope = |settings: &Settings| match settings.fleet_lists.contains(name) {
            true => Scope::Fleet,
            false => Scope::Host,
        };
        let scopes = [scope(old), scope(new)];
        note(&mut changes, &format!("{name}: scope"), scopes);
    }
    changes
}

fn note<T: Display + PartialEq>(changes: &mut Vec<String>, what: &str, values: [T; 2]) {
    directed(changes, what, values, None);
}

/// Notes a difference, and its direction if the new value compares to the old one.
fn directed<T: Display + PartialEq>(
    changes: &mut Vec<String>,
    what: &str,
    [from, to]: [T; 2],
    order: Option<Ordering>,
) {
    let direction = match order {
        Some(Ordering::Less) => " (tighter)",
        Some(Ordering::Greater) => " (looser)",
        _ => "",
    };
    if from != to {
        changes.push(format!("{what} {from} -> {to}{direction}"));
    }
}

fn on(switch: bool) -> &'static str {
    if switch { "on" } else { "off" }
}

/// The limit on new sources as one of the limits.
fn new_sources(limit: Option<NewSources>) -> Vec<Limit> {
    let named = |limit: NewSources| Limit {
        name: "new sources".to_owned(),
        ..limit.limit()
    };
    limit.map(named).into_iter().collect()
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
    let mut changes = Vec::new();
    let cost = |limit: &Limit| {
        limit
            .cost
            .map_or("by unit".to_owned(), |cost| cost.to_string())
    };
    let rates = [old.rate, new.rate];
    directed(&mut changes, "rate", rates, new.rate.compare(&old.rate));
    let tokens = |limit: &Limit| limit.burst(frame_max).map_or(0, |burst| burst.tokens);
    let same_unit = old.rate.unit == new.rate.unit;
    let order = same_unit.then(|| tokens(new).cmp(&tokens(old)));
    let bursts = [old, new].map(|limit| burst(limit, frame_max));
    directed(&mut changes, "burst", bursts, order);
    note(&mut changes, "cost", [cost(old), cost(new)]);
    note(&mut changes, "shadow", [on(old.shadow), on(new.shadow)]);
    note(&mut changes, "algorithm", [old.algorithm, new.algorithm]);
    let hold = |limit: &Limit| limit.hold.map_or(NONE.to_owned(), |hold| hold.to_string());
    note(&mut changes, "hold", [hold(old), hold(new)]);
    let max_delay = |limit: &Limit| {
        limit
            .max_delay
            .map_or(NONE.to_owned(), |time| time.to_string())
    };
    note(&mut changes, "max_delay", [max_delay(old), max_delay(new)]);
    let adaptive = |limit: &Limit| {
        limit
            .adaptive
            .as_ref()
            .map_or(NONE.to_owned(), ToString::to_string)
    };
    note(&mut changes, "adaptive", [adaptive(old), adaptive(new)]);
    note(&mut changes, "proof", [old.proof, new.proof]);
    note(&mut changes, "scope", [old.scope, new.scope]);
    if old.key != new.key {
        changes.push(format!("key {} -> {}, with new buckets", old.key, new.key));
    }
    if old.matches != new.matches {
        changes.push("match".to_owned());
    }
    changes
}

/// The burst in force, and whether it follows the rate.
fn burst(limit: &Limit, frame_max: u64) -> String {
    let burst = limit.burst(frame_max);
    let burst = burst.map_or_else(|_| String::new(), |burst| burst.to_string());
    match limit.burst {
        Some(_) => burst,
        None => format!("{burst} by the rate"),
    }
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
