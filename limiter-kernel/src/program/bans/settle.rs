//! Removes the bans that have ended, and what a killed command has left.

use std::collections::HashMap;

use ipnet::IpNet;
use limiter_common::{
    abi::{Ban, BanCounts, PrefixBans},
    policy::ban::{OVER, end, is_over, later},
};

use super::{
    Bans,
    record::{WHOLE, in_force, is_by_hand, key_of, prefix_of, settled},
};
use crate::{Result, program::Raw};

/// Nanoseconds for which bans that have ended may stay, so that not every edit reads all bans.
const LEFT_OVER: u64 = 10_000_000_000;

impl Bans {
    /// Removes the bans that have ended, and what a killed command has left: if there may be any, if one ended some time
    /// ago, or if there may be no room for `more`.
    pub(super) fn settle_for(&mut self, more: u64, most: u64, now: u64) -> Result<BanCounts> {
        let banned = self.banned();
        let ended = |end: u64| end == OVER || end != 0 && end.saturating_add(LEFT_OVER) <= now;
        if !ended(banned.first_end) && banned.bans + more <= most {
            return Ok(banned);
        }
        let change = banned.change;
        let mut counted = BanCounts {
            change,
            ..BanCounts::default()
        };
        let mut by_prefix: HashMap<IpNet, Vec<(u32, Ban)>> = HashMap::new();
        for (Raw(key), Raw(ban)) in self.records()? {
            let until = end(&ban.ends, change);
            if is_over(until, now) {
                self.put_record(key, None)?;
                continue;
            }
            if ban.ends.change > change {
                let ends = settled(until, change);
                self.put_record(key, Some(Ban { ends, ..ban }))?;
            }
            let prefix = prefix_of(key.bits, key.address)?;
            let of_prefix = by_prefix.entry(prefix).or_default();
            of_prefix.push((key.owner, in_force(&ban, change)));
            counted.bans += 1;
            counted.first_end = first_end(&counted, until);
        }
        for (prefix, sum) in self.sums()? {
            let Some(owned) = by_prefix.remove(&prefix) else {
                self.put(&prefix, None)?;
                continue;
            };
            let wanted = PrefixBans {
                dropped: sum.dropped,
                ..together(&prefix, &owned, change)
            };
            let now = PrefixBans {
                all: settled(end(&sum.all, change), change),
                by_hand: settled(end(&sum.by_hand, change), change),
                throttled: settled(end(&sum.throttled, change), change),
                ..sum
            };
            if sum.all.change > change || now != wanted {
                self.put(&prefix, Some(wanted))?;
            }
            *count_of(&mut counted, &prefix) += 1;
        }
        // Bans are written before their prefixes. A prefix that could not be put back is here.
        for (prefix, owned) in by_prefix {
            self.put(&prefix, Some(together(&prefix, &owned, change)))?;
            *count_of(&mut counted, &prefix) += 1;
        }
        self.write(counted);
        Ok(counted)
    }
}

/// The bans of a prefix together.
fn together(prefix: &IpNet, owned: &[(u32, Ban)], change: u64) -> PrefixBans {
    let [all, by_hand, throttled] = ends_of(owned.iter().map(|(_, ban)| ban));
    PrefixBans {
        all: settled(all, change),
        by_hand: settled(by_hand, change),
        throttled: settled(throttled, change),
        dropped: 0,
        bits: key_of(prefix).prefix_len(),
        owners: owned.iter().fold(0, |bits, (owner, _)| bits | 1 << owner),
    }
}

/// The latest end of these bans that drop packets, of those by hand among them, and of the bans that throttle.
pub(super) fn ends_of<'b>(bans: impl Iterator<Item = &'b Ban>) -> [u64; 3] {
    let [mut all, mut by_hand, mut throttled] = [OVER; 3];
    for ban in bans {
        if ban.is_throttle != 0 {
            throttled = later(throttled, ban.ends.until);
            continue;
        }
        all = later(all, ban.ends.until);
        if is_by_hand(ban) {
            by_hand = later(by_hand, ban.ends.until);
        }
    }
    [all, by_hand, throttled]
}

pub(super) fn count_of<'b>(banned: &'b mut BanCounts, prefix: &IpNet) -> &'b mut u64 {
    let [addresses, prefixes] = &mut banned.counts;
    if key_of(prefix).prefix_len() == WHOLE {
        addresses
    } else {
        prefixes
    }
}

/// The first end of all bans, with one that ends at `until`; 0 if none ends.
pub(super) fn first_end(banned: &BanCounts, until: u64) -> u64 {
    let ends = [banned.first_end, until].into_iter();
    ends.filter(|end| *end != 0).min().unwrap_or(0)
}
