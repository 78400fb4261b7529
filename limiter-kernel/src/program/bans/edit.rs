//! Changes of bans: all of a command are in force, or none.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::Duration,
};

use aya::maps::MapError;
use ipnet::IpNet;
use limiter_common::{
    abi::{Ban, BanCounts, BanKey, Ends, ORIGIN_MAX, OWNERS_MAX, PrefixBans},
    policy::ban::{OVER, is_over},
};
use limiter_config::lists::show;

use super::{
    Bans,
    record::{WHOLE, in_force, key_of, record_key, settled},
    settle::{count_of, ends_of, first_end},
};
use crate::{Error, Result, error::read_failed, program::Raw};

/// Attempts to write a ban, a millisecond apart.
const TRIES: u32 = 100;

/// The wanted bans of one prefix, by origin; none for a ban that is to end.
type Wishes = BTreeMap<[u8; ORIGIN_MAX], Option<Ban>>;

/// A change of bans that nothing of is written yet.
#[derive(Default)]
struct Plan {
    /// Bans as they will be.
    records: Vec<(BanKey, Ban)>,
    /// Prefixes as they will be.
    sums: Vec<(IpNet, PrefixBans)>,
    /// Bans that are renewed or end, as they are.
    before: Vec<(IpNet, BanKey, Ban)>,
    /// Prefixes that have bans now, as they are.
    sums_before: Vec<(IpNet, PrefixBans)>,
    /// Bans that end.
    ended: Vec<BanKey>,
    /// Prefixes that no origin bans any more.
    free: Vec<IpNet>,
}

impl Bans {
    /// Adds or renews these bans, all or none of them: one for each prefix and origin. Returns those that were there
    /// already, as they were. `most`: the bans that there is room for.
    pub fn add(&mut self, bans: &[(IpNet, Ban)], most: u32, now: u64) -> Result<Vec<(IpNet, Ban)>> {
        let mut wishes: BTreeMap<IpNet, Wishes> = BTreeMap::new();
        for (prefix, ban) in bans {
            let of_prefix = wishes.entry(*prefix).or_default();
            of_prefix.insert(ban.origin, Some(*ban));
        }
        let banned = self.settle_for(bans.len() as u64, most.into(), now)?;
        self.change(&wishes, banned, most, now)
    }

    /// Ends bans, all or none of them, each given by its prefix and origin. Returns those that were there.
    pub fn remove(
        &mut self,
        bans: &BTreeSet<(IpNet, [u8; ORIGIN_MAX])>,
        now: u64,
    ) -> Result<Vec<(IpNet, Ban)>> {
        let mut wishes: BTreeMap<IpNet, Wishes> = BTreeMap::new();
        for (prefix, origin) in bans {
            wishes.entry(*prefix).or_default().insert(*origin, None);
        }
        let banned = self.settle_for(0, u64::MAX, now)?;
        self.change(&wishes, banned, u32::MAX, now)
    }

    fn change(
        &mut self,
        wishes: &BTreeMap<IpNet, Wishes>,
        banned: BanCounts,
        most: u32,
        now: u64,
    ) -> Result<Vec<(IpNet, Ban)>> {
        let mut banned = banned;
        let mut plan = Plan::default();
        for (prefix, wishes) in wishes {
            self.plan(prefix, wishes, &mut banned, &mut plan, now)?;
        }
        if banned.bans > most.into() && !plan.records.is_empty() {
            return Err(Error::Refused(format!(
                "there is room for {most} bans, and with these there would be {}; none was added: remove some (`limiter bans` lists them), ban a prefix instead of its addresses, or attach again with a larger --max-bans",
                banned.bans
            )));
        }
        // The program looks for bans before there is one.
        let change = self.begin(banned);
        if let Err(error) = self.write_all(&plan) {
            self.undo(&plan, now);
            return Err(Error::Refused(format!(
                "the kernel did not take a change of the bans; nothing was changed: free memory, and try again ({error})"
            )));
        }
        banned.change = change;
        if plan.ended.is_empty() {
            self.write(banned);
        } else {
            self.begin(banned);
            for prefix in &plan.free {
                self.put(prefix, None)?;
                let count = count_of(&mut banned, prefix);
                *count = count.saturating_sub(1);
            }
            for key in &plan.ended {
                self.put_record(*key, None)?;
                banned.bans = banned.bans.saturating_sub(1);
            }
            self.write(banned);
        }
        let before = plan.before.into_iter();
        let before = before.map(|(prefix, _, ban)| (prefix, ban));
        Ok(before
            .filter(|(_, ban)| !is_over(ban.ends.until, now))
            .collect())
    }

    /// Adds the wishes for one prefix to the plan, and counts what they add.
    fn plan(
        &self,
        prefix: &IpNet,
        wishes: &Wishes,
        banned: &mut BanCounts,
        plan: &mut Plan,
        now: u64,
    ) -> Result<()> {
        let sum = self.sum(prefix)?;
        let change = banned.change + 1;
        let mut owned: BTreeMap<u32, Ban> = match &sum {
            Some(sum) => self.owned(prefix, sum)?.into_iter().collect(),
            None => BTreeMap::new(),
        };
        let is_there = |ban: &Ban| !is_over(ban.ends.until, now);
        let [all, by_hand, throttled] = ends_of(owned.values());
        let mut ended = BTreeSet::new();
        let mut is_changed = false;
        for (origin, wish) in wishes {
            let owner_of = |is_wanted: &dyn Fn(&Ban) -> bool| {
                let found = owned.iter().find(|(_, ban)| is_wanted(ban));
                found.map(|(owner, _)| *owner)
            };
            let own = owner_of(&|ban| ban.origin == *origin);
            // A ban that has ended leaves its place.
            let left = owner_of(&|ban| !is_there(ban));
            let unused = (0..OWNERS_MAX).find(|owner| !owned.contains_key(owner));
            let owner = match (own, wish) {
                (Some(owner), _) => owner,
                (None, None) => continue,
                (None, Some(_)) => left.or(unused).ok_or_else(|| full(prefix))?,
            };
            let earlier = owned.get(&owner).copied();
            let key = record_key(prefix, owner);
            let (ban, until) = match (wish, &earlier) {
                (Some(ban), _) => (*ban, ban.ends.until),
                (None, Some(ban)) => (*ban, OVER),
                (None, None) => continue,
            };
            let before = earlier.filter(is_there).map_or(OVER, |ban| ban.ends.until);
            let ban = Ban {
                ends: Ends {
                    until,
                    before,
                    change,
                },
                ..ban
            };
            match earlier {
                Some(earlier) => plan.before.push((*prefix, key, earlier)),
                None => banned.bans += 1,
            }
            match wish {
                Some(_) => banned.first_end = first_end(banned, until),
                None => _ = ended.insert(owner),
            }
            plan.records.push((key, ban));
            owned.insert(owner, in_force(&ban, change));
            is_changed = true;
        }
        if !is_changed {
            return Ok(());
        }
        match &sum {
            Some(sum) => plan.sums_before.push((*prefix, *sum)),
            None => *count_of(banned, prefix) += 1,
        }
        if !owned.values().any(is_there) {
            plan.free.push(*prefix);
            ended.extend(owned.keys());
        }
        plan.ended
            .extend(ended.iter().map(|owner| record_key(prefix, *owner)));
        let [all_now, by_hand_now, throttled_now] = ends_of(owned.values());
        let ends = |until, before| Ends {
            until,
            before,
            change,
        };
        let owners = owned.keys().fold(0, |bits, owner| bits | 1 << owner);
        let dropped = sum
            .filter(|_| !is_over(all, now))
            .map_or(0, |sum| sum.dropped);
        let sum = PrefixBans {
            all: ends(all_now, all),
            by_hand: ends(by_hand_now, by_hand),
            throttled: ends(throttled_now, throttled),
            dropped,
            bits: key_of(prefix).prefix_len(),
            owners,
        };
        plan.sums.push((*prefix, sum));
        Ok(())
    }

    /// Writes the bans first: a prefix never names one that is not there.
    fn write_all(&mut self, plan: &Plan) -> Result<()> {
        for (key, ban) in &plan.records {
            self.put_record(*key, Some(*ban))?;
        }
        for (prefix, sum) in &plan.sums {
            self.put(prefix, Some(*sum))?;
        }
        Ok(())
    }

    /// Writes `banned` so that the next edit settles all bans, if this one does not come to its end. Returns the number
    /// of the next change.
    fn begin(&self, banned: BanCounts) -> u64 {
        let first_end = OVER;
        self.write(BanCounts {
            first_end,
            ..banned
        });
        banned.change + 1
    }

    /// Puts bans back as they were, and removes what else a change that failed has left. Where that fails too, the next
    /// edit does it.
    fn undo(&mut self, plan: &Plan, now: u64) {
        let change = self.banned().change;
        for (_, key, ban) in &plan.before {
            let ends = settled(ban.ends.until, change);
            let _ = self.put_record(*key, Some(Ban { ends, ..*ban }));
        }
        for (prefix, sum) in &plan.sums_before {
            let _ = self.put(prefix, Some(*sum));
        }
        let _ = self.settle_for(0, u64::MAX, now);
    }

    /// Writes the bans of a prefix together, or removes them.
    pub(super) fn put(&mut self, prefix: &IpNet, sum: Option<PrefixBans>) -> Result<()> {
        let key = key_of(prefix);
        patiently(|| match (key.prefix_len(), sum) {
            (WHOLE, Some(sum)) => self.addresses.insert(key, Raw(sum), 0),
            (WHOLE, None) => self.addresses.remove(&key),
            (_, Some(sum)) => self.prefixes.insert(&key, Raw(sum), 0),
            (_, None) => self.prefixes.remove(&key),
        })
    }

    /// Writes the ban of a prefix by one origin, or removes it.
    pub(super) fn put_record(&mut self, key: BanKey, ban: Option<Ban>) -> Result<()> {
        patiently(|| match ban {
            Some(ban) => self.by_origin.insert(Raw(key), Raw(ban), 0),
            None => self.by_origin.remove(&Raw(key)),
        })
    }
}

/// Tries a change of a map again for a while if the kernel has no memory at hand: it gets new memory for maps in the
/// background.
fn patiently(mut change: impl FnMut() -> Result<(), MapError>) -> Result<()> {
    let mut tries = 0;
    loop {
        let done = change();
        tries += 1;
        match done {
            Err(MapError::SyscallError(error))
                if tries < TRIES
                    && matches!(
                        error.io_error.raw_os_error(),
                        Some(libc::ENOMEM | libc::EBUSY | libc::EAGAIN)
                    ) =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            done => return done.map_err(read_failed),
        }
    }
}

/// Error for a prefix that too many origins ban.
fn full(prefix: &IpNet) -> Error {
    Error::Refused(format!(
        "{OWNERS_MAX} origins ban {} already, and a prefix has room for no more; none was added: `limiter unban` it, or use one of those origins",
        show(prefix)
    ))
}
