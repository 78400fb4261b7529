//! Which keys there are, and which one was meant.

/// The keys of a table.
#[derive(Debug)]
pub struct Keys {
    /// What the table is called in messages.
    pub table: &'static str,
    /// Where to write its keys.
    pub place: &'static str,
    /// All of them.
    pub known: &'static [&'static str],
}

/// Above all headers.
pub static TOP: Keys = Keys {
    table: "the file",
    place: "at the top of the file, above [lists] and [[limit]]",
    known: &[
        "interfaces",
        "mode",
        "max_sources",
        "new_sources",
        "new_sources_burst",
        "exempt",
        "shadow",
        "malformed",
        "fleet",
        "lists",
        "limit",
    ],
};

/// `[[limit]]`.
pub static LIMIT: Keys = Keys {
    table: "a limit",
    place: "under [[limit]]",
    known: &[
        "name",
        "match",
        "key",
        "rate",
        "burst",
        "cost",
        "algorithm",
        "shadow",
        "scope",
    ],
};

/// `match`.
pub static MATCH: Keys = Keys {
    table: "match",
    place: "in match = { ... } under [[limit]]",
    known: &[
        "protocol",
        "destination_port",
        "source_port",
        "tcp_flags",
        "source",
        "unless",
        "ip_version",
        "fragments",
    ],
};

/// `{ file = "path" }`, `{ scope = "fleet", prefixes = [] }`.
pub static LIST: Keys = Keys {
    table: "a list",
    place: "in a list under [lists], as in { file = \"path\" }",
    known: &["file", "prefixes", "scope"],
};

impl Keys {
    /// What to say about a key that this table does not have.
    pub fn unknown(&self, key: &str) -> String {
        let what = format!("'{}' is not a key of {}", key.escape_debug(), self.table);
        if let Some(place) = place_of(key) {
            return format!("{what}: write it {place}");
        }
        match self.nearest(key) {
            Some(known) => format!("{what}: did you mean '{known}'?"),
            None => format!("{what}: write one of {}", self.known.join(", ")),
        }
    }

    /// The key that was meant.
    pub fn nearest(&self, key: &str) -> Option<&'static str> {
        nearest(key, self.known.iter().copied())
    }
}

/// Where a key belongs.
pub fn place_of(key: &str) -> Option<&'static str> {
    match key {
        "lists" => return Some("as [lists], a header of its own"),
        "limit" => return Some("as [[limit]], a header of its own"),
        _ => {}
    }
    let home = [&TOP, &LIMIT, &MATCH]
        .into_iter()
        .find(|keys| keys.known.contains(&key));
    home.map(|keys| keys.place)
}

/// Which of `known` was meant; none where none is near.
pub fn nearest<'k>(written: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    const NEAR: f64 = 0.85;
    let written = written.to_lowercase();
    // Long texts are no slips, and the comparison takes the product of the lengths.
    if written.len() > 64 {
        return None;
    }
    let near = known.map(|known| (strsim::jaro_winkler(&written, known), known));
    let nearest = near.max_by(|(one, _), (other, _)| one.total_cmp(other));
    nearest
        .filter(|(near, _)| *near > NEAR)
        .map(|(_, known)| known)
}
