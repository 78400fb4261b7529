//! Contradictions between settings, reported at the keys that they concern.

use toml::de::DeTable;

use super::{
    super::{Settings, problems::Problem},
    mistakes::Mistakes,
};
use crate::config::Part;

/// Reports every problem that does not follow from an earlier mistake in the file `root`.
pub fn report(settings: &Settings, root: &DeTable, mistakes: &mut Mistakes) {
    for Problem { of, key, why } in settings.problems() {
        if !is_doubtful(of, &key, mistakes) {
            let line = line_of(root, of, &key, mistakes);
            mistakes.add(line, format!("{key}: {why}"));
        }
    }
}

/// Returns true if a problem may be none without the earlier mistakes.
fn is_doubtful(of: Part, key: &str, mistakes: &Mistakes) -> bool {
    // If one key of a quota is wrong, the others cannot be checked.
    let keys: &[&str] = match (of, key) {
        (Part::Limit(_), "rate" | "burst" | "cost" | "algorithm" | "hold") => {
            &["rate", "burst", "cost", "algorithm", "hold"]
        }
        (Part::Control, _) => &["rate", "burst", "total"],
        (Part::Whole, "new_sources") => &["new_sources", "new_sources_burst"],
        _ => &[key],
    };
    mistakes.any_wrong(of, keys)
        || match (of, key) {
            // The definition of an unknown list may be in an unreadable part.
            (Part::Limit(_), "source" | "unless" | "destination") => {
                !mistakes.broken.is_empty() || mistakes.any_wrong(Part::Whole, &["lists"])
            }
            // The fleet may be named in an unreadable part, or in a wrong place.
            (Part::Limit(_), "scope") | (Part::Lists, _) => {
                !mistakes.broken.is_empty() || mistakes.wrong.iter().any(|(_, key)| key == "fleet")
            }
            _ => false,
        }
}

/// The line of a key, or of a related one.
fn line_of(root: &DeTable, of: Part, key: &str, mistakes: &Mistakes) -> usize {
    let limits = || root.get("limit")?.get_ref().as_array();
    let header = match of {
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
