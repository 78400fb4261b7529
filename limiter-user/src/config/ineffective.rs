//! Settings without effect: limits that match no packet or never refuse one, lists that no limit names.

use std::cmp::Ordering;

use super::{
    Invalid, Limit, Match, Settings,
    matches::IpVersion,
    problems::{Part, Problem},
    settings::{Algorithm, Scope},
};

/// The longest frame of an interface with the usual MTU, in bytes.
pub const USUAL_FRAME: u64 = 1_522;

impl Settings {
    /// All settings that can never have an effect on frames of at most `frame_max` bytes.
    pub fn ineffective(&self, frame_max: u64) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, limit) in self.limits.iter().enumerate() {
            let found = [
                wrong_version(&limit.matches),
                in_both(&limit.matches),
                self.wrong_sources(&limit.matches),
                too_small(limit, frame_max),
                self.never_refuses(index, limit, frame_max),
            ];
            let found = found.into_iter().flatten();
            problems.extend(found.map(|(key, why)| Problem {
                of: Part::Limit(index),
                key,
                why: Invalid::new(why),
            }));
        }
        let names = |list| {
            let holds = |matches: &Match| {
                [&matches.source, &matches.unless].map(|lists| lists.contains(list))
            };
            self.limits
                .iter()
                .any(|limit| holds(&limit.matches).contains(&true))
        };
        let unused = self.lists.tiers.keys().filter(|list| !names(list));
        problems.extend(unused.map(|list| Problem {
            of: Part::List(list.clone()),
            key: "lists",
            why: Invalid::new(format!(
                "no limit uses the list '{list}': write match = {{ source = \"{list}\" }} in a limit, or remove the list"
            )),
        }));
        problems
    }

    /// Finds a version of IP that no prefix of the lists has.
    fn wrong_sources(&self, matches: &Match) -> Option<(&'static str, String)> {
        let version = matches.ip_version?;
        let lists = matches.source.iter();
        let mut prefixes = lists
            .filter_map(|list| self.lists.tiers.get(list))
            .flatten()
            .peekable();
        prefixes.peek()?;
        let is_of_it = |is_v4: bool| is_v4 == (version == IpVersion::V4);
        (!prefixes.any(|prefix| is_of_it(prefix.addr().is_ipv4()))).then(|| {
            let why = format!(
                "{} has no prefix of that version, so the limit matches no packet: leave ip_version out, or name another list",
                matches.source.join(", ")
            );
            ("ip_version", why)
        })
    }

    /// Finds another limit on the same packets and buckets that always refuses first.
    fn never_refuses(
        &self,
        index: usize,
        limit: &Limit,
        frame_max: u64,
    ) -> Option<(&'static str, String)> {
        let mut others = self.limits.iter().enumerate();
        let (_, stricter) = others.find(|(other, stricter)| {
            *other != index
                && is_covered(limit, stricter, frame_max)
                && (*other < index || !is_covered(stricter, limit, frame_max))
        })?;
        let why = format!(
            "limit '{}' has the same match and key, and always refuses first: remove one of the two",
            stricter.name
        );
        Some(("rate", why))
    }
}

/// Returns true if `limit` never refuses packets that `stricter` has admitted.
fn is_covered(limit: &Limit, stricter: &Limit, frame_max: u64) -> bool {
    let both = |is: fn(&Limit) -> bool| is(limit) && is(stricter);
    let (Ok(burst), Ok(strict_burst)) = (limit.burst(frame_max), stricter.burst(frame_max)) else {
        return false;
    };
    both(|limit| limit.algorithm == Algorithm::TokenBucket && limit.scope == Scope::Host)
        && !stricter.shadow
        && (&limit.matches, limit.key, limit.cost)
            == (&stricter.matches, stricter.key, stricter.cost)
        && stricter
            .rate
            .compare(&limit.rate)
            .is_some_and(Ordering::is_le)
        && strict_burst.tokens <= burst.tokens
}

/// Finds a protocol that belongs to the other version of IP.
fn wrong_version(matches: &Match) -> Option<(&'static str, String)> {
    let (protocol, version) = (matches.protocol?, matches.ip_version?);
    let (other, instead) = match (protocol.0, version) {
        (1 | 2, IpVersion::V6) => (4, "protocol = \"icmpv6\""),
        (58, IpVersion::V4) => (6, "protocol = \"icmp\""),
        _ => return None,
    };
    let why = format!(
        "{protocol} is a protocol of IPv{other}, so the limit matches no valid packet: write {instead}, or ip_version = {other}"
    );
    Some(("protocol", why))
}

/// Finds lists that are both in `source` and in `unless`.
fn in_both(matches: &Match) -> Option<(&'static str, String)> {
    let source = matches.source.iter();
    let both: Vec<_> = source
        .filter(|list| matches.unless.contains(list))
        .map(String::as_str)
        .collect();
    let effect = match both.len() {
        0 => return None,
        len if len == matches.source.len() => "the limit matches no packet",
        _ => "no source on it matches",
    };
    let why = format!(
        "{} is in source too, so {effect}: remove it from one of the two",
        both.join(", ")
    );
    Some(("unless", why))
}

/// Finds a burst that never admits a whole frame.
fn too_small(limit: &Limit, frame_max: u64) -> Option<(&'static str, String)> {
    let why = limit.quota(frame_max).err()?;
    limit.quota(1).is_ok().then(|| ("burst", why.to_string()))
}
