//! [`Settings`] as a file that can be used again.

use std::fmt::Display;

use super::{
    super::{Burst, Control, Limit, NONE, Settings, Unit, lists},
    adaptive, packets,
    written::{array, lines, text},
};
use crate::{ALLOW, DENY, Direction, Key, Prefixes, lists::BANS};

/// The most prefixes on one line.
const ON_ONE_LINE: usize = 4;

/// Prints a file that `parse` reads as the same settings. Defaults are left out, apart from those that users ask for
/// most: the mode, the number of sources, and the limit on new sources.
pub fn show(interfaces: &[String], settings: &Settings) -> String {
    let of_new = settings.new_sources;
    let burst = of_new.and_then(|of_new| of_new.burst);
    let no_second_chance = of_new.is_some_and(|of_new| !of_new.second_chance);
    let top = lines([
        ("interfaces", some(interfaces)),
        ("mode", Some(text(settings.mode))),
        ("direction", changed(settings.direction)),
        ("max_sources", Some(settings.max_sources.to_string())),
        (
            "max_bans",
            (settings.max_bans != Settings::default().max_bans)
                .then(|| settings.max_bans.to_string()),
        ),
        ("new_sources", or_none(of_new.map(|of_new| of_new.rate))),
        ("new_sources_burst", burst.map(|burst| burst.to_string())),
        ("second_chance", no_second_chance.then(|| false.to_string())),
        ("exempt", some(&settings.exempt.names())),
        ("malformed", changed(settings.malformed)),
        ("shadow", on(settings.shadow)),
        ("fleet", settings.fleet.as_ref().map(text)),
    ]);
    let limits = settings
        .limits
        .iter()
        .map(|limit| self::limit(limit, settings.direction));
    let limits: String = limits.collect();
    top + &control(settings) + &lists(settings) + &limits
}

fn control(settings: &Settings) -> String {
    let control = settings.control;
    if !settings.exempt.control || control == Control::default() {
        return String::new();
    }
    let fields = [
        ("rate", Some(text(control.rate))),
        ("burst", control.burst.map(burst)),
        ("total", or_none(control.total)),
    ];
    format!("\n[control]\n{}", lines(fields))
}

fn lists(settings: &Settings) -> String {
    let mut written = String::new();
    for (name, prefixes) in settings.lists.all() {
        let values = prefix_array(prefixes);
        let value = match (settings.fleet_lists.contains(name), prefixes.is_empty()) {
            (false, true) if name == ALLOW || name == DENY => continue,
            (false, _) => values,
            (true, true) => "{ scope = \"fleet\" }".to_owned(),
            (true, false) => format!("{{ scope = \"fleet\", prefixes = {values} }}"),
        };
        // A dot would begin a nested table.
        let key = if name.contains('.') {
            text(name)
        } else {
            name.to_owned()
        };
        written += &format!("{key} = {value}\n");
    }
    if settings.fleet_lists.contains(BANS) {
        written += &format!("{BANS} = {{ scope = \"fleet\" }}\n");
    }
    let header = if written.is_empty() {
        ""
    } else {
        "\n[lists]\n"
    };
    header.to_owned() + &written
}

fn limit(limit: &Limit, direction: Direction) -> String {
    let matches = Some(&limit.matches).filter(|matches| !matches.is_everything());
    let fields = [
        ("name", Some(text(&limit.name))),
        ("match", matches.map(packets::show)),
        (
            "key",
            (limit.key != Key::of_peers(direction)).then(|| text(limit.key)),
        ),
        ("rate", Some(text(limit.rate))),
        ("burst", limit.burst.map(burst)),
        ("cost", limit.cost.map(|cost| cost.to_string())),
        ("algorithm", changed(limit.algorithm)),
        ("hold", limit.hold.map(text)),
        ("max_delay", limit.max_delay.map(text)),
        ("adaptive", limit.adaptive.as_ref().map(adaptive::show)),
        ("proof", changed(limit.proof)),
        ("shadow", on(limit.shadow)),
        ("scope", changed(limit.scope)),
    ];
    format!("\n[[limit]]\n{}", lines(fields))
}

fn some(values: &[impl Display]) -> Option<String> {
    (!values.is_empty()).then(|| array(values.iter().map(text)))
}

fn or_none(value: Option<impl Display>) -> Option<String> {
    Some(value.map_or_else(|| text(NONE), text))
}

fn changed<T: Display + Default + PartialEq>(value: T) -> Option<String> {
    (value != T::default()).then(|| text(value))
}

fn on(switch: bool) -> Option<String> {
    switch.then(|| true.to_string())
}

fn prefix_array(prefixes: &Prefixes) -> String {
    let written: Vec<_> = prefixes
        .iter()
        .map(|prefix| text(lists::show(prefix)))
        .collect();
    if written.len() <= ON_ONE_LINE {
        return array(written);
    }
    format!("[\n    {},\n]", written.join(",\n    "))
}

/// Prints a burst. A number without a unit fits either unit, so packets need theirs.
fn burst(burst: Burst) -> String {
    const THOUSAND: u64 = 1_000;
    match burst.unit {
        None => burst.tokens.to_string(),
        Some(Unit::Packets) if !burst.tokens.is_multiple_of(THOUSAND) => text(format!(
            "{}.{:03}k",
            burst.tokens / THOUSAND,
            burst.tokens % THOUSAND
        )),
        Some(_) => text(burst),
    }
}
