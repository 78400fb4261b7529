//! Warns of limits that lose their room in the table to a flood of new sources. The flood comes as fast as the limit
//! on new sources admits, and each source keeps its entry until its bucket is full again. With `hold`, it sends enough
//! packets to be held.

use std::{cmp::Ordering, time::Duration};

use limiter_common::arithmetic::scale;

use super::{
    Invalid, Limit, NewSources, Rate, Settings, Unit,
    shares::{claims, divide, entries, longest, until_full},
};

const SECOND: u64 = 1_000_000_000;

/// Entries that are needed if `entries` are taken per `period` nanoseconds, and each is held for `held` nanoseconds.
fn needed(entries: u64, period: u64, held: u64) -> u64 {
    let needed = u128::from(entries) * u128::from(held);
    u64::try_from(needed.div_ceil(u128::from(period.max(1)))).unwrap_or(u64::MAX)
}

/// A limit without enough room.
struct Crowded<'l> {
    limit: &'l Limit,
    /// Its entries in the table.
    room: u32,
    /// Nanoseconds for which each is held.
    held: u64,
    /// Entries that the flood needs; none without a limit on new sources.
    needed: Option<u64>,
    /// Entries that a source takes.
    each: u64,
}

/// The finding about a limit.
fn finding(crowded: &Crowded) -> String {
    let Crowded {
        limit,
        room,
        held,
        needed,
        ..
    } = crowded;
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

/// The highest rate of 1, 2 or 5 times a power of ten, in the shortest period, at which `room` entries are enough that are
/// held for `held` nanoseconds each.
fn fitting(room: u64, held: u64) -> Option<Rate> {
    let rate = |seconds: u64| {
        let period_ns = seconds * SECOND;
        let most = u128::from(room) * u128::from(period_ns) / u128::from(held.max(1));
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let power = 10_u64.pow(most.checked_ilog10()?);
        let digit = [5, 2, 1].into_iter().find(|digit| digit * power <= most)?;
        Some(Rate {
            amount: digit * power,
            period_ns,
            unit: Unit::Packets,
        })
    };
    [1, 60, 3_600, 86_400].into_iter().find_map(rate)
}

/// The cost when the rate is lowest.
fn at_floor(limit: &Limit, cost: u64) -> u64 {
    let adaptive = limit.adaptive.as_ref();
    adaptive.map_or(cost, |adaptive| scale::cost(cost, adaptive.floor.stretch()))
}

impl Settings {
    /// Limits that lose their room in the table to a flood of new sources, so that other sources find no room.
    /// [`Self::table_advice`] tells how to prevent it.
    pub fn table_warnings(&self, frame_max: u64) -> Result<Vec<String>, Invalid> {
        let limits = self.all_limits();
        let crowded = self.crowded(&limits, frame_max)?;
        Ok(crowded.iter().map(finding).collect())
    }

    /// The rate of `new_sources` at which no limit loses its room; `None` if all have room, or none ever has enough.
    pub fn fitting_new_sources(&self, frame_max: u64) -> Option<Rate> {
        let limits = self.all_limits();
        // Invalid settings are reported elsewhere.
        let crowded = self.crowded(&limits, frame_max).ok()?;
        let crowded = crowded.iter();
        let rates =
            crowded.map(|crowded| fitting(u64::from(crowded.room) / crowded.each, crowded.held));
        let rates: Vec<_> = rates.collect::<Option<_>>()?;
        let slower = |left: &Rate, right: &Rate| left.compare(right).unwrap_or(Ordering::Equal);
        rates.into_iter().min_by(slower)
    }

    /// The settings to change. `interface`: one on which they are in force.
    pub fn table_advice(&self, frame_max: u64, interface: Option<&str>) -> String {
        let rest = "raise max_sources or the limit's rate";
        match self.fitting_new_sources(frame_max) {
            Some(rate) => {
                let command = interface.map(|name| format!("limiter set {name} "));
                let command = command.unwrap_or_default();
                format!(
                    "`{command}--new-sources {rate}`, or new_sources = \"{rate}\" in a file, leaves room; or {rest}"
                )
            }
            None => rest.to_owned(),
        }
    }

    fn crowded<'l>(
        &self,
        limits: &'l [Limit],
        frame_max: u64,
    ) -> Result<Vec<Crowded<'l>>, Invalid> {
        let claims = claims(limits, frame_max)?;
        let shares = divide(entries(self.max_sources), &claims);
        let mut crowded = Vec::new();
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
            // A key of two IPv4 addresses takes two entries; one of IPv6 may take more.
            let each = 1 + u64::from(limit.key.has_both());
            let needed = match &self.new_sources {
                Some(NewSources { rate, .. }) => Some(needed(
                    rate.tokens_per_period() * each,
                    rate.period_ns,
                    held,
                )),
                None if claims[index].quick => continue,
                None => None,
            };
            if needed.is_some_and(|needed| needed <= share.most.into()) {
                continue;
            }
            crowded.push(Crowded {
                limit,
                room: share.most,
                held,
                needed,
                each,
            });
        }
        Ok(crowded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advised_rate_leaves_room_and_twice_as_much_does_not() {
        let alone = |rate: &str| vec![Limit::new("a", rate.parse().unwrap())];
        let both = [alone("5/m"), alone("1/h")].concat();
        for limits in [
            alone("5/m"),
            alone("5/h"),
            alone("1/d"),
            alone("1/90d"),
            both,
        ] {
            let mut settings = Settings {
                limits,
                ..Settings::default()
            };
            assert!(!settings.table_warnings(1_522).unwrap().is_empty());
            let rate = settings.fitting_new_sources(1_522).unwrap();
            let advice = settings.table_advice(1_522, Some("eth0"));
            assert!(
                advice.contains(&format!("`limiter set eth0 --new-sources {rate}`")),
                "{advice}"
            );
            settings.new_sources = Some(NewSources::new(rate));
            assert_eq!(settings.table_warnings(1_522).unwrap(), [""; 0], "{rate}");
            settings.new_sources = Some(NewSources::new(Rate {
                amount: rate.amount * 5 / 2 + 1,
                ..rate
            }));
            assert_ne!(settings.table_warnings(1_522).unwrap(), [""; 0], "{rate}");
        }
        let roomy = Settings {
            limits: alone("5/s"),
            ..Settings::default()
        };
        assert_eq!(roomy.fitting_new_sources(1_522), None);
    }
}
