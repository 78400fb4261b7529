//! The differences between two settings, in words.

use std::collections::{BTreeMap, BTreeSet};

use super::{Limit, Lists, NONE, NewSources, Prefixes, Scope, Settings};

/// A setting, and its value in words.
type Setting<'a> = (&'a str, String);

/// One line for each difference, on an interface with frames of up to `frame_max` bytes. Empty if there is none.
pub fn difference(old: &Settings, new: &Settings, frame_max: u64) -> Vec<String> {
    let [before, after] = [old, new].map(|settings| new_sources(settings.new_sources));
    let mut changes = limits_of(&before, &after, frame_max, true);
    changes.extend(noted(whole(old), whole(new)));
    // A single limit needs no name.
    let with_names = new.limits.len() != 1;
    changes.extend(limits_of(&old.limits, &new.limits, frame_max, with_names));
    let names = |settings: &Settings| -> Vec<_> {
        let limits = settings.limits.iter();
        limits.map(|limit| limit.name.clone()).collect()
    };
    if changes.is_empty() && names(old) != names(new) {
        changes.push("order of the limits".to_owned());
    }
    if old.exempt.control && new.exempt.control {
        let (old, new) = (old.control.limits(), new.control.limits());
        changes.extend(limits_of(&old, &new, frame_max, true));
    }
    lists(&mut changes, &old.lists, &new.lists);
    for name in old.fleet_lists.union(&new.fleet_lists) {
        let key = format!("{name}: scope");
        let scope = |settings: &Settings| match settings.fleet_lists.contains(name) {
            true => [(key.as_str(), Scope::Fleet.to_string())],
            false => [(key.as_str(), Scope::Host.to_string())],
        };
        changes.extend(noted(scope(old), scope(new)));
    }
    changes
}

/// Notes the settings that differ.
fn noted<'a, const N: usize>(
    old: [Setting<'a>; N],
    new: [Setting<'a>; N],
) -> impl Iterator<Item = String> {
    let both = old.into_iter().zip(new);
    both.filter(|(old, new)| old != new)
        .map(|((key, before), (_, after))| format!("{key} {before} -> {after}"))
}

fn on(switch: bool) -> String {
    if switch { "on" } else { "off" }.to_owned()
}

fn or(value: Option<impl ToString>, none: &str) -> String {
    value.map_or(none.to_owned(), |value| value.to_string())
}

/// The settings beside limits and lists.
fn whole(settings: &Settings) -> [Setting<'static>; 5] {
    let exempt = Some(settings.exempt.names().join(",")).filter(|names| !names.is_empty());
    let second_chance = settings.new_sources.is_none_or(|limit| limit.second_chance);
    [
        ("second chance", on(second_chance)),
        ("exempt", or(exempt, "nothing")),
        ("shadow", on(settings.shadow)),
        ("malformed", settings.malformed.to_string()),
        ("fleet", or(settings.fleet.as_ref(), NONE)),
    ]
}

/// The settings of a limit.
fn of_limit(limit: &Limit, frame_max: u64) -> [Setting<'static>; 10] {
    [
        ("rate", limit.rate.to_string()),
        ("burst", burst(limit, frame_max)),
        ("cost", or(limit.cost, "by unit")),
        ("shadow", on(limit.shadow)),
        ("algorithm", limit.algorithm.to_string()),
        ("hold", or(limit.hold, NONE)),
        ("max_delay", or(limit.max_delay, NONE)),
        ("adaptive", or(limit.adaptive.as_ref(), NONE)),
        ("proof", limit.proof.to_string()),
        ("scope", limit.scope.to_string()),
    ]
}

/// The limit on new sources as one of the limits.
fn new_sources(limit: Option<NewSources>) -> Vec<Limit> {
    let named = |limit: NewSources| Limit {
        name: "new sources".to_owned(),
        ..limit.limit()
    };
    limit.map(named).into_iter().collect()
}

/// The differences of each limit, with its name in front if `with_names`.
fn limits_of(old: &[Limit], new: &[Limit], frame_max: u64, with_names: bool) -> Vec<String> {
    let named = |limits: &[Limit], name: &str| limits.iter().any(|limit| limit.name == name);
    let gone = old.iter().filter(|limit| !named(new, &limit.name));
    let mut changes: Vec<_> = gone
        .map(|limit| format!("limit {} gone", limit.name))
        .collect();
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
    changes
}

fn one_limit(old: &Limit, new: &Limit, frame_max: u64) -> Vec<String> {
    let [before, after] = [old, new].map(|limit| of_limit(limit, frame_max));
    let mut changes: Vec<_> = noted(before, after).collect();
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
