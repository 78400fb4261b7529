//! What a change has changed, in words.

mod depth;

use super::{Limit, Lists, NewSources, Scope, Settings, lists::Prefixes, settings::NO_FLEET};
use depth::Depth;

/// One line for each thing that differs on an interface whose longest frame has `frame_max` bytes; none where nothing
/// does.
#[must_use]
pub fn difference(old: &Settings, new: &Settings, frame_max: u64) -> Vec<String> {
    let mut changes = Vec::new();
    let exempt = |settings: &Settings| match settings.exempt.names().join(",") {
        names if names.is_empty() => "nothing".to_owned(),
        names => names,
    };
    new_sources(&mut changes, old.new_sources, new.new_sources);
    note(&mut changes, "exempt", exempt(old), exempt(new));
    note(&mut changes, "shadow", on(old.shadow), on(new.shadow));
    note(
        &mut changes,
        "malformed",
        old.malformed.name().to_owned(),
        new.malformed.name().to_owned(),
    );
    let fleet = |settings: &Settings| settings.fleet.clone().unwrap_or(NO_FLEET.to_owned());
    note(&mut changes, "fleet", fleet(old), fleet(new));
    limits(&mut changes, &old.limits, &new.limits, frame_max);
    if old.exempt.control && new.exempt.control {
        let (old, new) = (old.control.limits(), new.control.limits());
        limits_of(&mut changes, &old, &new, frame_max, true);
    }
    lists(&mut changes, &old.lists, &new.lists);
    scopes_of_lists(&mut changes, old, new);
    changes
}

fn note(changes: &mut Vec<String>, what: &str, from: String, to: String) {
    if from != to {
        changes.push(format!("{what} {from} -> {to}"));
    }
}

fn new_sources(changes: &mut Vec<String>, old: Option<NewSources>, new: Option<NewSources>) {
    let shown = |limit: NewSources| format!("{} burst {}", limit.rate, limit.burst());
    match (old, new) {
        (Some(old), Some(new)) => {
            let mut of_limit = Vec::new();
            Depth::of_new_sources(old).change(&Depth::of_new_sources(new), &mut of_limit);
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

fn on(shadow: bool) -> String {
    if shadow { "on" } else { "off" }.to_owned()
}

fn limits(changes: &mut Vec<String>, old: &[Limit], new: &[Limit], frame_max: u64) {
    // The name goes without saying where there is no other.
    limits_of(changes, old, new, frame_max, new.len() != 1);
    let order = |limits: &[Limit]| {
        limits
            .iter()
            .map(|limit| limit.name.clone())
            .collect::<Vec<_>>()
    };
    if changes.is_empty() && order(old) != order(new) {
        changes.push("order of the limits".to_owned());
    }
}

/// What has changed of each limit, behind its name if `with_names`.
fn limits_of(
    changes: &mut Vec<String>,
    old: &[Limit],
    new: &[Limit],
    frame_max: u64,
    with_names: bool,
) {
    let named =
        |limits: &[Limit], name: &str| limits.iter().find(|limit| limit.name == name).cloned();
    for limit in old {
        if named(new, &limit.name).is_none() {
            changes.push(format!("limit {} gone", limit.name));
        }
    }
    for limit in new {
        let Some(before) = named(old, &limit.name) else {
            changes.push(format!("limit {} new: {}", limit.name, limit.rate));
            continue;
        };
        let prefix = if with_names {
            format!("{}: ", limit.name)
        } else {
            String::new()
        };
        let mut of_limit = Vec::new();
        Depth::of_limit(&before, frame_max)
            .change(&Depth::of_limit(limit, frame_max), &mut of_limit);
        one_limit(&mut of_limit, &before, limit);
        changes.extend(
            of_limit
                .into_iter()
                .map(|change| format!("{prefix}{change}")),
        );
    }
}

fn one_limit(changes: &mut Vec<String>, old: &Limit, new: &Limit) {
    let cost = |limit: &Limit| {
        limit
            .cost
            .map_or_else(|| "by unit".to_owned(), |cost| cost.to_string())
    };
    note(changes, "cost", cost(old), cost(new));
    note(changes, "shadow", on(old.shadow), on(new.shadow));
    note(
        changes,
        "algorithm",
        old.algorithm.name().to_owned(),
        new.algorithm.name().to_owned(),
    );
    note(
        changes,
        "scope",
        old.scope.name().to_owned(),
        new.scope.name().to_owned(),
    );
    if old.key != new.key {
        changes.push(format!("key {} -> {}, with new buckets", old.key, new.key));
    }
    if old.matches != new.matches {
        changes.push("match".to_owned());
    }
}

fn scopes_of_lists(changes: &mut Vec<String>, old: &Settings, new: &Settings) {
    let scope = |settings: &Settings, name: &str| {
        let of_fleet = settings.fleet_lists.contains(name);
        let scope = if of_fleet { Scope::Fleet } else { Scope::Host };
        scope.name().to_owned()
    };
    for name in old.fleet_lists.union(&new.fleet_lists) {
        let what = format!("{name}: scope");
        note(changes, &what, scope(old, name), scope(new, name));
    }
}

fn lists(changes: &mut Vec<String>, old: &Lists, new: &Lists) {
    let none = Prefixes::new();
    let named = |lists: &Lists, name: &str| -> Prefixes {
        lists
            .all()
            .find(|(other, _)| *other == name)
            .map_or_else(|| none.clone(), |(_, prefixes)| prefixes.clone())
    };
    let mut names: Vec<&str> = old.all().chain(new.all()).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (before, after) = (named(old, name), named(new, name));
        let (added, removed) = (
            after.difference(&before).count(),
            before.difference(&after).count(),
        );
        if added + removed > 0 {
            changes.push(format!("{name}: {added} added, {removed} removed"));
        }
    }
}
