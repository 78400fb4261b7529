//! What does not go together, told at the keys that it is about.

use super::{
    super::{
        Settings,
        settings::{LIMITS_MAX, Part, Problem},
    },
    mistakes::Mistakes,
    section::Places,
};

/// What makes the quota of a limit: where one of these is wrong, nothing can be said about the others.
const QUOTA: [&str; 4] = ["rate", "burst", "cost", "algorithm"];
const CONTROL: [&str; 3] = ["rate", "burst", "total"];
const NEW_SOURCES: [&str; 2] = ["new_sources", "new_sources_burst"];

/// Where everything is that was read.
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

/// Tells every problem that does not follow from a mistake that was told already. Frames have at most `frame_max` bytes.
pub fn tell(settings: &Settings, frame_max: u64, read: &Read, mistakes: &mut Mistakes) {
    for problem in settings.problems() {
        if let Some(line) = read.place(&problem, mistakes) {
            mistakes.add(line, format!("{}: {}", problem.key, problem.why));
        }
    }
    // Of what is wrong, nobody knows whether it is in vain too.
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
    /// The line to tell a problem on; none for what may not be one.
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

    /// The line to tell a problem on; none for what may not be one.
    fn in_limit(&self, limit: &Places, key: &str, mistakes: &Mistakes) -> Option<usize> {
        let doubtful = match key {
            _ if QUOTA.contains(&key) => limit.any_wrong(&QUOTA),
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
