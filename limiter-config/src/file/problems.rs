//! Contradictions between settings, reported at the keys that they concern.

use crate::{
    Part, Settings,
    problems::Problem,
    reader::{DeTable, Mistakes},
};

/// Reports all contradictions in the file `root`.
pub fn report(settings: &Settings, root: &DeTable, mistakes: &mut Mistakes) {
    control(settings, root, mistakes);
    for Problem { part, key, why } in settings.problems() {
        let line = line_of(root, part, &key, mistakes);
        mistakes.add(line, format!("{key}: {why}"));
    }
    let lists_do_nothing = settings.lists.are_empty() && settings.fleet_lists.is_empty();
    if settings.limits.is_empty() && lists_do_nothing {
        let why =
            "nothing to limit: write [[limit]] with a name and a rate, or prefixes under [lists]";
        mistakes.add(1, why.to_owned());
    }
}

/// Reports limits on control traffic that is not exempt.
fn control(settings: &Settings, root: &DeTable, mistakes: &mut Mistakes) {
    let (exempt, all) = (settings.exempt, root.get("control"));
    let table = all.and_then(|all| all.get_ref().as_table());
    let has = |key: &str| table.is_some_and(|table| table.contains_key(key));
    let unused = [
        (
            all.is_some() && !exempt.has_control(),
            "control",
            "these limits apply only to exempt control traffic: write exempt = [\"control\"] at the top of the file, or remove [control]",
        ),
        (
            has("rate") && exempt.has_routing() && !exempt.control,
            "rate",
            "this rate applies only to exempt control traffic: add \"control\" to exempt, or write routing = for VRRP, OSPF and BFD",
        ),
        (
            has("burst") && exempt.has_routing() && !exempt.control,
            "burst",
            "this burst applies only to exempt control traffic: add \"control\" to exempt, or remove the line",
        ),
        (
            has("routing") && exempt.control && !exempt.has_routing(),
            "routing",
            "this rate applies only to exempt VRRP, OSPF and BFD: add \"vrrp\", \"ospf\" or \"bfd\" to exempt, or remove the line",
        ),
    ];
    for (_, key, why) in unused.into_iter().filter(|(is_unused, ..)| *is_unused) {
        let part = match key {
            "control" => Part::Whole,
            _ => Part::Control,
        };
        let line = line_of(root, part, key, mistakes);
        mistakes.add(line, format!("{key}: {why}"));
    }
}

/// The line of a key, or of a related one.
fn line_of(root: &DeTable, part: Part, key: &str, mistakes: &Mistakes) -> usize {
    let limits = || root.get("limit")?.get_ref().as_array();
    let header = match part {
        Part::Whole => None,
        Part::Control => root.get("control"),
        Part::Lists => root.get("lists"),
        Part::Limit(index) => limits().and_then(|limits| limits.get(index)),
    };
    let table = header.map_or(Some(root), |header| header.get_ref().as_table());
    let matches = table.and_then(|table| table.get("match"));
    let tables = [
        table,
        matches.and_then(|matches| matches.get_ref().as_table()),
    ];
    let keys = [key, "rate", "match", "new_sources_burst"].into_iter();
    let found = keys.flat_map(|key| tables.map(|table| table?.get_key_value(key)));
    let start = match found.flatten().next() {
        Some((key, _)) => key.span().start,
        None => header.map_or(0, |header| header.span().start),
    };
    mistakes.line(start)
}
