//! [`Settings`] as a file that can be used again.

use super::content::{File, unwritten};
use crate::{
    ALLOW, Control, DENY, Match, Prefixes, Settings, lists,
    lists::BANS,
    new_sources::NewSourcesKeys,
    reader::{Keyed, array, lines, quoted},
};

/// The most prefixes on one line.
const ON_ONE_LINE: usize = 4;

/// Prints a file that `parse` reads as the same settings. Defaults are left out, apart from those that users ask for
/// most: the mode, the number of sources, and the limit on new sources.
pub fn show(interfaces: &[String], settings: &Settings) -> String {
    let file = File {
        interfaces: interfaces.to_vec(),
        ..File::default()
    };
    let new_sources = NewSourcesKeys::from(settings.new_sources);
    let top = written(&file, &File::default())
        + &written(settings, &Settings::default())
        + &written(&new_sources, &NewSourcesKeys::default());
    let default = unwritten(settings.direction);
    let limits = settings.limits.iter();
    let limits: String = limits
        .map(|limit| format!("\n[[limit]]\n{}", written(limit, &default)))
        .collect();
    top + &control(settings) + &lists(settings) + &limits
}

/// Prints `match` as in the file.
pub fn matches(matches: &Match) -> String {
    if *matches == Match::others() {
        return "other".to_owned();
    }
    matches.in_line()
}

/// Prints the keys of a table, each on a line of its own.
fn written<T: Keyed>(table: &T, default: &T) -> String {
    lines(table.values(default).into_iter().map(Into::into))
}

fn control(settings: &Settings) -> String {
    let default = Control::default();
    if !settings.exempt.has_control() || settings.control == default {
        return String::new();
    }
    let exempt = settings.exempt;
    let applies = |key: &str| match key {
        "rate" | "burst" => exempt.control,
        "routing" => exempt.has_routing(),
        _ => true,
    };
    let values = settings.control.values(&default).into_iter();
    let values = values.filter(|shown| applies(shown.known.key));
    format!("\n[control]\n{}", lines(values.map(Into::into)))
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
            quoted(name)
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

fn prefix_array(prefixes: &Prefixes) -> String {
    let written: Vec<_> = prefixes
        .iter()
        .map(|prefix| quoted(lists::show(prefix)))
        .collect();
    if written.len() <= ON_ONE_LINE {
        return array(written);
    }
    format!("[\n    {},\n]", written.join(",\n    "))
}
