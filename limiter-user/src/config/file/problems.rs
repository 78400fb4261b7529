//! What does not go together, told at the keys that it is about.

use super::{
    super::{
        Settings,
        settings::{LIMITS_MAX, Part, Problem},
    },
    mistakes::Mistakes,
    section::Places,
};

/// What makes the terms of a limit: where one of these is wrong, nothing can be said about the others.
const TERMS: [&str; 4] = ["rate", "burst", "cost", "algorithm"];
const NEW_SOURCES: [&str; 2] = ["new_sources", "new_sources_burst"];

/// Where everything is that was read.
pub struct Read {
    /// The file's keys.
    pub top: Places,
    /// The lists.
    pub lists: Places,
    /// The keys of each limit.
    pub limits: Vec<Places>,
}

/// Tells every problem that does not follow from a mistake that was told already.
pub fn tell(settings: &Settings, read: &Read, mistakes: &mut Mistakes) {
    for Problem { of, key, why } in settings.problems() {
        let place = match of {
            Part::Limit(index) => read
                .limits
                .get(index)
                .and_then(|limit| read.in_limit(limit, key, mistakes)),
            Part::List(name) => {
                (!read.fleet_is_doubtful(mistakes)).then(|| read.lists.line_of(&[&name]))
            }
            Part::Whole => read.in_whole(key),
        };
        if let Some(line) = place {
            mistakes.add(line, format!("{key}: {why}"));
        }
    }
}

impl Read {
    /// The line to tell a problem on; none for what may not be one.
    fn in_limit(&self, limit: &Places, key: &str, mistakes: &Mistakes) -> Option<usize> {
        let doubtful = match key {
            _ if TERMS.contains(&key) => limit.any_wrong(&TERMS),
            // A list that is not known may stand where nothing could be read.
            "source" | "unless" => {
                limit.any_wrong(&[key])
                    || self.top.any_wrong(&["lists"])
                    || mistakes.any_is_broken()
            }
            "scope" => self.fleet_is_doubtful(mistakes),
            _ => limit.any_wrong(&[key]),
        };
        (!doubtful).then(|| limit.line_of(&[key, "rate", "match"]))
    }

    /// Whether the fleet may be named where nothing could be read, or in a place where it does not belong.
    fn fleet_is_doubtful(&self, mistakes: &Mistakes) -> bool {
        let mut sections = [&self.top, &self.lists].into_iter().chain(&self.limits);
        mistakes.any_is_broken() || sections.any(|section| section.any_wrong(&["fleet"]))
    }

    fn in_whole(&self, key: &str) -> Option<usize> {
        match key {
            "limit" => self.limits.get(LIMITS_MAX).map(|limit| limit.line),
            "new_sources" => {
                (!self.top.any_wrong(&NEW_SOURCES)).then(|| self.top.line_of(&NEW_SOURCES))
            }
            _ => (!self.top.any_wrong(&[key])).then(|| self.top.line_of(&[key])),
        }
    }
}
