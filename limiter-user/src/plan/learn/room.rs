//! Sizes the table, and sets the rate of new sources.

use std::collections::BTreeMap;

use super::{
    Watched,
    choose::{self, WINDOW},
    human,
};
use crate::config::{NewSources, Rate, settings::SOURCES_MAX};

const SECOND: u64 = 1_000_000_000;
/// Minimum size of the table. Entries cost little.
const MAX_SOURCES_MIN: u64 = 65_536;
/// The new-source limit is this many times the observed rate.
const NEW_SOURCES_MARGIN: u64 = 4;

/// Room for twice the number of sources that came back.
pub(super) fn max_sources(returning: u64) -> u32 {
    let wanted = returning
        .saturating_mul(2)
        .clamp(MAX_SOURCES_MIN, SOURCES_MAX.into());
    u32::try_from(wanted.next_power_of_two()).unwrap_or(SOURCES_MAX)
}

/// The new-source limit: several times the observed rate, but at least the default, because a quiet hour does not
/// predict a crowd. If most sources look made up, sources with only one packet are not counted. Also returns whether
/// they look made up, and the new sources in the busiest second.
pub(super) fn new_sources(watched: &Watched, once: u64, returning: u64) -> (NewSources, bool, u64) {
    /// Conditions for made-up sources. They send once each, outnumber the returning ones 10 to 1, and 1,000 new ones
    /// come per second.
    const MADE_UP: (u64, f64) = (10, 1_000.0);
    let halvings = watched.sampler.halvings();
    #[expect(clippy::cast_precision_loss, reason = "compared, not computed with")]
    let once_per_second = (once << halvings) as f64 / choose::seconds(watched.duration);
    let made_up = once >= MADE_UP.0 * returning && once_per_second >= MADE_UP.1;
    // At the beginning every source is new.
    let settled = (watched.duration > 2 * WINDOW).then_some(WINDOW);
    let mut by_second: BTreeMap<u64, u64> = BTreeMap::new();
    if made_up {
        for source in watched.sampler.sources().values() {
            *by_second.entry(source.first / SECOND).or_default() += 1;
        }
    } else {
        by_second.extend(watched.sampler.new_in_second());
    }
    let after = by_second.range((watched.begun + settled.unwrap_or(0)) / SECOND..);
    let at_most = after.map(|(_, new)| new << halvings).max().unwrap_or(0);
    let counted = if made_up { returning } else { returning + once };
    let rate = human::up(at_most.saturating_mul(NEW_SOURCES_MARGIN)).min(1_000_000);
    let default = NewSources::default();
    let limit = NewSources {
        rate: Rate::packets_per_second(rate.max(default.rate.amount)),
        ..default
    };
    let at_once = human::up((counted << halvings).saturating_mul(2));
    let burst = (at_once > limit.burst()).then_some(at_once);
    (NewSources { burst, ..limit }, made_up, at_most)
}
