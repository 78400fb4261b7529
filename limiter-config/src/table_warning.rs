//! Warns of limits that lose their room in the table to a flood of new sources. The flood comes as fast as the limit
//! on new sources admits, and each source keeps its entry until its bucket is full again. With `hold`, it sends enough
//! packets to be held.

use std::time::Duration;

use limiter_common::arithmetic::scale;

use super::{
    Invalid, Limit, NewSources, Settings,
    shares::{claims, divide, entries, longest, until_full},
};

const SECOND: u64 = 1_000_000_000;

/// The settings to change.
pub const ADVICE: &str = "raise max_sources or the limit's rate, or set a lower new_sources";

/// Entries that are needed if `entries` are taken per `period` nanoseconds, and each is held for `held` nanoseconds.
fn needed(entries: u64, period: u64, held: u64) -> u64 {
    let needed = u128::from(entries) * u128::from(held);
    u64::try_from(needed.div_ceil(u128::from(period.max(1)))).unwrap_or(u64::MAX)
}

/// The finding about a limit with `room` entries that are held for `held` nanoseconds each.
fn finding(limit: &Limit, room: u32, held: u64, needed: Option<u64>) -> String {
    let needed = needed.map_or_else(
        || "there is no limit on new sources".to_owned(),
        |needed| format!("new sources at the permitted rate need {needed} entries"),
    );
    let hold = limit
        .hold
        .map_or("", |_| " by a hold (write a shorter one)");
    format!(
        "a flood of new sources fills the table for limit '{}' ({room} entries), because each entry is kept for {}{hold}; {needed}",
        limit.name,
        humantime::format_duration(Duration::from_secs(held.div_ceil(SECOND))),
    )
}

/// The cost when the rate is lowest.
fn at_floor(limit: &Limit, cost: u64) -> u64 {
    let adaptive = limit.adaptive.as_ref();
    adaptive.map_or(cost, |adaptive| scale::cost(cost, adaptive.floor.stretch()))
}

impl Settings {
    /// Limits that lose their room in the table to a flood of new sources, so that other sources find no room.
    /// [`ADVICE`] tells how to prevent it.
    pub fn table_warnings(&self, frame_max: u64) -> Result<Vec<String>, Invalid> {
        let limits = self.all_limits();
        let claims = claims(&limits, frame_max)?;
        let shares = divide(entries(self.max_sources), &claims);
        let mut warnings = Vec::new();
        for (index, (limit, share)) in limits.iter().zip(&shares.by_limit).enumerate() {
            if claims[index].single {
                continue;
            }
            let quota = limit.quota(frame_max)?.in_kernel;
            // Nanoseconds until a full bucket is full again after the longest packet, or after a hold.
            let held = match quota.hold {
                0 => until_full(
                    &quota,
                    at_floor(limit, quota.cost_of(frame_max)).min(quota.tau),
                ),
                _ => longest(&quota),
            };
            let needed = match &self.new_sources {
                Some(NewSources { rate, .. }) => {
                    // A key of two IPv4 addresses takes two entries; one of IPv6 may take more.
                    let each = 1 + u64::from(limit.key.has_both());
                    Some(needed(
                        rate.tokens_per_period() * each,
                        rate.period_ns,
                        held,
                    ))
                }
                None if claims[index].quick => continue,
                None => None,
            };
            if needed.is_some_and(|needed| needed <= share.most.into()) {
                continue;
            }
            warnings.push(finding(limit, share.most, held, needed));
        }
        Ok(warnings)
    }
}
