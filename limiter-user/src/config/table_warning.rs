//! Warns of limits that lose their room in the table to a flood of new sources. The flood comes as fast as the limit
//! on new sources admits, and each source is held until its bucket is full again.

use std::time::Duration;

use limiter_common::arithmetic::quota::Quota;

use super::{
    Invalid, NewSources, Rate, Settings, Unit,
    settings::SOURCES_MAX,
    shares::{Claim, claims, divide, entries, until_full},
};

const SECOND: u64 = 1_000_000_000;

/// Nanoseconds until a full bucket is full again after a packet of `length` bytes.
pub fn held_for(quota: &Quota, length: u64) -> u64 {
    until_full(quota, quota.cost_of(length).min(quota.tau))
}

/// The highest rate of new sources for which `entries` are enough if each source is held for `held` nanoseconds.
/// Returns sources, and the period in nanoseconds. `None` if one source per day is too fast.
pub fn fastest(entries: u32, held: u64) -> Option<(u64, u64)> {
    [SECOND, 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND]
        .into_iter()
        .map(|period| (period_share(entries, held, period), period))
        .find(|(sources, _)| *sources > 0)
}

fn period_share(entries: u32, held: u64, period: u64) -> u64 {
    let sources = u128::from(entries) * u128::from(period) / u128::from(held.max(1));
    u64::try_from(sources).unwrap_or(u64::MAX)
}

/// Entries that are needed if `sources` come per `period` nanoseconds, and each is held for `held` nanoseconds.
pub fn needed(sources: u64, period: u64, held: u64) -> u64 {
    let needed = u128::from(sources) * u128::from(held);
    u64::try_from(needed.div_ceil(u128::from(period.max(1)))).unwrap_or(u64::MAX)
}

/// True if the largest table gives the limit at `index` room for `needed` entries.
fn largest_is_enough(needed: u64, claims: &[Claim], index: usize) -> bool {
    u64::from(divide(entries(SOURCES_MAX), claims).of[index].most) >= needed
}

/// A limit that loses its room in the table to a flood of new sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableWarning {
    /// The finding.
    pub found: String,
    /// The settings to change.
    pub advice: String,
}

/// The finding about a limit with `room` entries that are held for `held` nanoseconds each.
fn finding(limit: &str, room: u32, held: u64, needed: Option<u64>) -> String {
    // Long times are rounded down to a second.
    let rounded = if held > SECOND {
        held - held % SECOND
    } else {
        held
    };
    let needed = needed.map_or_else(
        || "there is no limit on new sources".to_owned(),
        |needed| format!("new sources at the permitted rate need {needed} entries"),
    );
    format!(
        "a flood of new sources fills the table for limit '{limit}' ({room} entries), because each entry is kept for {}; {needed}",
        humantime::format_duration(Duration::from_nanos(rounded)),
    )
}

/// The advice. `new_sources` is the highest sufficient rate: sources, and the period in nanoseconds.
fn advice(larger_is_enough: bool, new_sources: Option<(u64, u64)>) -> String {
    let more = larger_is_enough.then(|| "raise max_sources".to_owned());
    let fewer = new_sources.map(|(sources, period_ns)| {
        let rate = Rate {
            amount: sources,
            period_ns,
            unit: Unit::Packets,
        };
        format!("set new_sources = \"{rate}\" or less")
    });
    let ways: Vec<_> = more.into_iter().chain(fewer).collect();
    if ways.is_empty() {
        return "raise the limit's rate".to_owned();
    }
    ways.join(", or ")
}

impl Settings {
    /// Limits that lose their room in the table to a flood of new sources, so that other sources find no room.
    pub fn table_warnings(&self, frame_max: u64) -> Result<Vec<TableWarning>, Invalid> {
        let limits = self.all_limits();
        let claims = claims(&limits, frame_max)?;
        let shares = divide(entries(self.max_sources), &claims);
        let mut warnings = Vec::new();
        for (index, (limit, share)) in limits.iter().zip(&shares.of).enumerate() {
            if claims[index].single {
                continue;
            }
            let quota = limit.quota(frame_max)?.in_kernel;
            let held = held_for(&quota, frame_max);
            let needed = match &self.new_sources {
                Some(NewSources { rate, .. }) => {
                    Some(needed(rate.tokens_per_period(), rate.period_ns, held))
                }
                None if claims[index].quick => continue,
                None => None,
            };
            if needed.is_some_and(|needed| needed <= share.most.into()) {
                continue;
            }
            let larger = needed.is_some_and(|needed| largest_is_enough(needed, &claims, index));
            warnings.push(TableWarning {
                found: finding(&limit.name, share.most, held, needed),
                advice: advice(larger, fastest(share.most, held)),
            });
        }
        Ok(warnings)
    }
}
