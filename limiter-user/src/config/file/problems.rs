//! Contradictions between settings, reported at the keys that they concern.

use super::{
    super::{
        Settings,
        problems::{Part, Problem},
        settings::LIMITS_MAX,
    },
    mistakes::Mistakes,
    section::Places,
};

/// The keys of a limit's quota. If one is wrong, the others cannot be checked.
const QUOTA: [&str; 4] = ["rate", "burst", "cost", "algorithm"];
const CONTROL: [&str; 3] = ["rate", "burst", "total"];
const NEW_SOURCES: [&str; 2] = ["new_sources", "new_sources_burst"];

/// The places of everything read.
pub struct Read {
    /// The file's keys.
    pub top: Places,
    /// The keys of `[control]`.
    pub control: Places,
    /// The lists.
    pub lists: Places,
    /// The keys of each limit.
    pub limits: Vec<Places>,
}

/// Reports every problem that does not follow from an earlier mistake. Frames have at most `frame_max` bytes.
pub fn tell(settings: &Settings, frame_max: u64, read: &Read, mistakes: &mut Mistakes) {
    for problem in settings.problems() {
        if let Some(line) = read.place(&problem, mistakes) {
            mistakes.add(line, format!("{}: {}", problem.key, problem.why));
        }
    }
    // Wrong settings may or may not have an effect, so there are no warnings with mistakes.
    if !mistakes.are_none() {
        return;
    }
    for problem in settings.ineffective(frame_max) {
        if let Some(line) = read.place(&problem, mistakes) {
            mistakes.warn(line, &format!("{}: {}", problem.key, problem.why));
        }
    }
}

impl Read {
    /// The line to report a problem on; `None` if it may be no problem.
    fn place(&self, problem: &Problem, mistakes: &Mistakes) -> Option<usize> {
        let key = problem.key;
        match &problem.of {
            Part::Limit(index) => self
                .limits
                .get(*index)
                .and_then(|limit| self.in_limit(limit, key, mistakes)),
            Part::Control => {
                (!self.control.any_wrong(&CONTROL)).then(|| self.control.line_of(&[key, "rate"]))
            }
            Part::List(name) => {
                (!self.fleet_is_doubtful(mistakes)).then(|| self.lists.line_of(&[name]))
            }
            Part::Whole => self.in_whole(key),
        }
    }

    /// The line to report a limit's problem on; `None` if it may be no problem.
    fn in_limit(&self, limit: &Places, key: &str, mistakes: &Mistakes) -> Option<usize> {
        let doubtful = match key {
            _ if QUOTA.contains(&key) => limit.any_wrong(&QUOTA),
            // The definition of an unknown list may be in an unreadable part.
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

    /// Returns true if the fleet may be named in an unreadable part, or in a wrong place.
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
