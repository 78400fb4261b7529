//! Shares of the table: the room of each limit.

use limiter_common::{
    arithmetic::{bucket::TICK_SHIFT, quota::Quota},
    table::ENTRIES_OF_PAIR,
};

use super::{Invalid, Limit, Settings};

/// One part in 8 of a table with several limits belongs to no limit: a new source may not find the last free entries.
const SPARE: u32 = 8;

/// A limit is quick if its empty or held bucket is full again within this many nanoseconds.
const QUICK: u64 = 10_000_000_000;

/// The properties of a limit that decide its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// True if the limit has one bucket for all sources.
    pub single: bool,
    /// True if the limit's buckets are full again within seconds.
    pub quick: bool,
}

/// A limit's share of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Entries that are reserved for the limit.
    pub entries: u32,
    /// Entries that the limit may hold, if no other limit holds more than its share.
    pub most: u32,
    /// True if the limit may borrow unreserved entries.
    pub borrows: bool,
}

/// The division of a table among limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Entries that all limits together may hold; 0 if each may hold the whole table.
    pub room: u32,
    /// The share of each limit.
    pub by_limit: Vec<Share>,
}

/// Entries of a table for `max_sources` sources.
pub fn entries(max_sources: u32) -> u32 {
    max_sources.div_ceil(ENTRIES_OF_PAIR) * ENTRIES_OF_PAIR
}

/// Divides a table with this number of entries. A limit with one bucket has one entry. If there are several other
/// limits, and a quick one among them, half of the rest is unreserved, and quick limits may borrow it. Limits have
/// equal shares of the remaining entries.
///
/// A single limit has the whole table. So has each limit of a table that is too small to be shared.
pub fn divide(entries: u32, claims: &[Claim]) -> Shares {
    let many = count(claims, |claim| !claim.single);
    let rest = (entries - entries / SPARE).saturating_sub(count(claims, |claim| claim.single));
    let borrowed = many > 1 && claims.iter().any(|claim| claim.quick && !claim.single);
    let common = if borrowed { rest / 2 } else { 0 };
    let share = (rest - common).checked_div(many).unwrap_or(0);
    // An IPv6 key takes two entries.
    if claims.len() < 2 || share < 2 {
        let all = Share {
            entries,
            most: entries,
            borrows: false,
        };
        return Shares {
            room: 0,
            by_limit: vec![all; claims.len()],
        };
    }
    let share_of = |claim: &Claim| {
        let borrows = claim.quick && !claim.single;
        let entries = if claim.single { 1 } else { share };
        Share {
            entries,
            most: entries + if borrows { common } else { 0 },
            borrows,
        }
    };
    Shares {
        room: entries - entries / SPARE,
        by_limit: claims.iter().map(share_of).collect(),
    }
}

fn count(claims: &[Claim], which: impl Fn(&Claim) -> bool) -> u32 {
    u32::try_from(claims.iter().filter(|claim| which(claim)).count()).unwrap_or(u32::MAX)
}

/// Nanoseconds until a bucket that lacks `spent` is full again.
pub(super) fn until_full(quota: &Quota, spent: u64) -> u64 {
    match quota.window.period {
        0 => spent.div_ceil(1 << TICK_SHIFT),
        period => period.saturating_mul(spent.div_ceil(quota.window.grant.max(1))),
    }
}

/// The most nanoseconds until a bucket is full again: one that is empty, or held.
pub(super) fn longest(quota: &Quota) -> u64 {
    until_full(quota, quota.tau + quota.hold)
}

impl Settings {
    /// The division of the table among [`Self::all_limits`].
    pub fn table_shares(&self, frame_max: u64) -> Result<Shares, Invalid> {
        let claims = claims(&self.all_limits(), frame_max)?;
        Ok(divide(entries(self.max_sources), &claims))
    }
}

/// The number of parts that new sources are divided into. A limit with one bucket takes no part, because it hardly
/// ever makes one. With several limits there are at least two parts: a flood against one limit must leave the others
/// a token.
pub fn parts_of_new_sources(limits: &[Limit]) -> usize {
    let many = limits.iter().filter(|limit| !limit.key.is_single());
    many.count().max(limits.len().min(2))
}

pub(super) fn claims(limits: &[Limit], frame_max: u64) -> Result<Vec<Claim>, Invalid> {
    let claim = |limit: &Limit| {
        let quota = limit.quota(frame_max)?.in_kernel;
        Ok(Claim {
            single: limit.key.is_single(),
            quick: longest(&quota) <= QUICK,
        })
    };
    limits.iter().map(claim).collect()
}
