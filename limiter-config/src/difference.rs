//! The differences between two settings, in words.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Limit, Lists, NONE, NewSources, Prefixes, Scope, Settings,
    reader::{Keyed, Setting},
};

/// A key, and its value in words.
type Worded = (&'static str, String);

/// One line for each difference, on an interface with frames of up to `frame_max` bytes. Empty if there is none.
pub fn difference(old: &Settings, new: &Settings, frame_max: u64) -> Vec<String> {
    let [before, after] = [old, new].map(|settings| new_sources(settings.new_sources));
    let mut changes = limits_of(&before, &after, frame_max, true);
    let second_chance = [old, new].map(|settings| {
        let is_on = settings.new_sources.is_none_or(|limit| limit.second_chance);
        vec![("second_chance", is_on.words())]
    });
    changes.extend(noted(second_chance));
    changes.extend(noted([old, new].map(words)));
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
    // The limits on traffic that is exempt in one of them only are told by `exempt`.
    let both = old.exempt.and(new.exempt);
    let [before, after] = [old, new].map(|settings| settings.control.limits(both));
    changes.extend(limits_of(&before, &after, frame_max, true));
    lists(&mut changes, &old.lists, &new.lists);
    for name in old.fleet_lists.union(&new.fleet_lists) {
        let scope = [old, new].map(|settings| {
            let is_shared = settings.fleet_lists.contains(name);
            let scope = if is_shared { Scope::Fleet } else { Scope::Host };
            vec![("scope", scope.to_string())]
        });
        changes.extend(noted(scope).map(|change| format!("{name}: {change}")));
    }
    changes
}

/// Notes the values that differ.
fn noted([old, new]: [Vec<Worded>; 2]) -> impl Iterator<Item = String> {
    let both = old.into_iter().zip(new);
    both.filter(|(old, new)| old != new)
        .map(|((key, before), (_, after))| match key {
            // Long, and the file has it.
            "match" => key.to_owned(),
            "key" => format!("{key} {before} -> {after}, with new buckets"),
            _ => format!("{key} {before} -> {after}"),
        })
}

/// All keys of a table, with their values in words.
fn words<T: Keyed>(table: &T) -> Vec<Worded> {
    let values = table.values(&T::default()).into_iter();
    values.map(|shown| (shown.known.key, shown.words)).collect()
}

/// The keys of a limit, with what follows from the rate.
fn words_of(limit: &Limit, frame_max: u64) -> Vec<Worded> {
    let mut words = words(limit);
    for (key, words) in &mut words {
        match (*key, limit.cost) {
            ("burst", _) => *words = burst(limit, frame_max),
            ("cost", None) => "by unit".clone_into(words),
            ("adaptive", _) => {
                *words = limit
                    .adaptive
                    .as_ref()
                    .map_or(NONE.to_owned(), ToString::to_string)
            }
            _ => {}
        }
    }
    words
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
        let both = [before, limit].map(|limit| words_of(limit, frame_max));
        changes.extend(noted(both).map(|change| match with_names {
            true => format!("{name}: {change}"),
            false => change,
        }));
    }
    changes
}

/// The burst in force, and whether it follows the rate.
fn burst(limit: &Limit, frame_max: u64) -> String {
    let burst = limit.burst(frame_max);
    let burst = burst.map_or_else(|_| String::new(), |burst| burst.for_people());
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
        if before == after {
            continue;
        }
        let added = after.difference(before).count();
        let removed = before.difference(after).count();
        if added + removed > 0 {
            changes.push(format!("{name}: {added} added, {removed} removed"));
        }
    }
}
