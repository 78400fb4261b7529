//! Bans that one full answer of CrowdSec lacks, without an end that was reported.
//!
//! Since version 1.7.8, CrowdSec sends a full answer in pieces while it reads its database. An error of the database
//! ends the answer early, with the status of a good one. So a ban is removed only if two full answers lack it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use ipnet::IpNet;

use crate::source::Wanted;

/// The shortest time between two full answers that must both lack a ban.
pub const CONFIRMED: Duration = Duration::from_secs(30);

/// The bans that wait for a second answer, with the time of the first one that lacked them.
#[derive(Debug, Default)]
pub struct Unconfirmed(BTreeMap<IpNet, Instant>);

impl Unconfirmed {
    /// Keeps in `new`, a full answer to a question at `asked`, those of the `known` bans that it lacks, unless it
    /// reports their end, or an answer to an earlier question has lacked them too.
    pub fn keep(
        &mut self,
        new: &mut Wanted,
        known: Wanted,
        ended: &BTreeSet<IpNet>,
        asked: Instant,
    ) {
        let mut lacking = BTreeMap::new();
        for (prefix, ban) in known {
            let is_over = ban.ends.is_some_and(|ends| ends <= asked);
            if is_over || ended.contains(&prefix) || new.contains_key(&prefix) {
                continue;
            }
            let since = self.0.get(&prefix).copied().unwrap_or(asked);
            if asked.saturating_duration_since(since) < CONFIRMED {
                lacking.insert(prefix, since);
                new.insert(prefix, ban);
            }
        }
        self.0 = lacking;
    }

    /// Drops those that are not wanted any more.
    pub fn retain(&mut self, wanted: &Wanted) {
        self.0.retain(|prefix, _| wanted.contains_key(prefix));
    }

    /// Forgets a ban that was reported again.
    pub fn confirm(&mut self, prefix: &IpNet) {
        self.0.remove(prefix);
    }

    /// Their number, and the first one.
    pub fn count(&self) -> (u64, Option<&IpNet>) {
        (self.0.len() as u64, self.0.keys().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WantedBan;

    /// Full answers one after the other, at these seconds, and what is wanted after each of them.
    #[test]
    fn ban_ends_if_its_end_is_reported_or_two_answers_lack_it() {
        let begun = Instant::now();
        let second = |seconds| begun + Duration::from_secs(seconds);
        let net = |last: u8| IpNet::from(std::net::IpAddr::from([192, 0, 2, last]));
        let ban = |last: u8| {
            // One of them ends by itself.
            let ban = WantedBan {
                ends: Some(second(if last == 9 { 40 } else { 4_000 })),
                ..WantedBan::default()
            };
            (net(last), ban)
        };
        let mut unconfirmed = Unconfirmed::default();
        let mut known: Wanted = [1, 2, 3, 9].map(ban).into();
        for (time, has, ended, wanted, waiting) in [
            (0, &[1, 2, 3, 9][..], &[][..], &[1, 2, 3, 9][..], 0),
            // Cut off, with one end that is reported.
            (10, &[1], &[2], &[1, 3, 9], 2),
            (20, &[1], &[], &[1, 3, 9], 2),
            // All are there again.
            (35, &[1, 3, 9], &[], &[1, 3, 9], 0),
            (36, &[3], &[], &[1, 3, 9], 2),
            // The other one has ended by itself.
            (65, &[3, 4], &[], &[1, 3, 4], 1),
            (66, &[3, 4], &[], &[3, 4], 0),
            // Not one by one either.
            (70, &[], &[], &[3, 4], 2),
            (99, &[4], &[], &[3, 4], 1),
            (100, &[4], &[], &[4], 0),
            (128, &[], &[], &[4], 1),
            (158, &[], &[], &[], 0),
        ] {
            let mut new: Wanted = has.iter().copied().map(ban).collect();
            let ended = ended.iter().copied().map(net).collect();
            unconfirmed.keep(&mut new, known, &ended, second(time));
            let left: Vec<_> = wanted.iter().copied().map(net).collect();
            assert!(new.keys().eq(&left), "at {time} s: {new:?}");
            assert_eq!(unconfirmed.count().0, waiting, "at {time} s");
            known = new;
        }
    }
}
