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
    let mut text = top + &control(settings);
    lists(settings, &mut text);
    text + &limits
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

/// Writes the lists behind the text. Long lists have no second copy on the way.
fn lists(settings: &Settings, text: &mut String) {
    const HEADER: &str = "\n[lists]\n";
    let begin = text.len();
    text.push_str(HEADER);
    for (name, prefixes) in settings.lists.all() {
        let is_shared = settings.fleet_lists.contains(name);
        if !is_shared && prefixes.is_empty() && (name == ALLOW || name == DENY) {
            continue;
        }
        // A dot would begin a nested table.
        text.push_str(&match name.contains('.') {
            true => quoted(name),
            false => name.to_owned(),
        });
        text.push_str(match (is_shared, prefixes.is_empty()) {
            (false, _) => " = ",
            (true, true) => " = { scope = \"fleet\" }",
            (true, false) => " = { scope = \"fleet\", prefixes = ",
        });
        if !is_shared || !prefixes.is_empty() {
            prefix_array(prefixes, text);
        }
        text.push_str(if is_shared && !prefixes.is_empty() {
            " }\n"
        } else {
            "\n"
        });
    }
    if settings.fleet_lists.contains(BANS) {
        text.push_str(BANS);
        text.push_str(" = { scope = \"fleet\" }\n");
    }
    if text.len() == begin + HEADER.len() {
        text.truncate(begin);
    }
}

fn prefix_array(prefixes: &Prefixes, text: &mut String) {
    if prefixes.len() <= ON_ONE_LINE {
        let written = prefixes.iter().map(|prefix| quoted(lists::show(&prefix)));
        text.push_str(&array(written));
        return;
    }
    // Most prefixes are of IPv4.
    text.reserve(prefixes.len() * "    \"192.0.2.0/24\",\n".len());
    text.push_str("[\n");
    for prefix in prefixes {
        text.push_str("    \"");
        lists::write(&prefix, text);
        text.push_str("\",\n");
    }
    text.push(']');
}
