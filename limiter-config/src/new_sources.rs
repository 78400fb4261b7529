//! `new_sources`: how fast sources come into the table.

use serde::{Deserialize, Serialize};

use super::{OrNone, Rate};

/// The limit on new sources in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSources {
    /// New sources per period.
    pub rate: Rate,
    /// The most new sources at once; `None`: those of 6.5536 seconds at the rate.
    pub burst: Option<u64>,
    /// A refused source that comes again has a budget of its own: [`SECOND_CHANCES`] of rate and burst more.
    pub second_chance: bool,
}

/// The budget of second chances, as a fraction of the rate and the burst.
pub const SECOND_CHANCES: (u64, u64) = (1, 4);
/// The budget of answers that ask for a proof, as such a fraction: large, because it should last in a flood.
pub const ANSWERS: (u64, u64) = (100, 1);

impl Default for NewSources {
    /// 10,000 per second, 65,536 at once.
    fn default() -> Self {
        Self::new(Rate::packets_per_second(10_000))
    }
}

impl NewSources {
    /// The limit with this rate, and defaults.
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            burst: None,
            second_chance: true,
        }
    }

    /// The burst in force.
    pub fn burst(&self) -> u64 {
        const NANOSECONDS: u64 = 6_553_600_000;
        self.burst
            .unwrap_or_else(|| self.rate.tokens_in(NANOSECONDS).max(1))
    }
}

crate::keys! {
    /// The keys of the limit on new sources.
    #[derive(Clone, Debug)]
    pub struct NewSourcesKeys("", "") {
        /// Rate at which new sources may enter the table: `"10k/s"` (default), or `"none"` for no limit.
        rate ("new_sources"): Option<Rate> as OrNone<Rate> = Some(NewSources::default().rate), shown,
            r#"a rate as in "10k/s", or "none""#;
        /// Number of new sources that may enter the table at once. Default: 6.5536 seconds of `new_sources`.
        burst ("new_sources_burst"): Option<u64>, r#"a number as in 65536 or "64k""#;
        /// `true` (default): a new source that was refused and comes again 0.3 to 8 seconds later has a budget of its
        /// own, a quarter of `new_sources`.
        second_chance: Option<bool>;
    }
}

impl From<Option<NewSources>> for NewSourcesKeys {
    fn from(limit: Option<NewSources>) -> Self {
        let has_none = |limit: NewSources| (!limit.second_chance).then_some(false);
        Self {
            rate: limit.map(|limit| limit.rate),
            burst: limit.and_then(|limit| limit.burst),
            second_chance: limit.and_then(has_none),
        }
    }
}

impl From<NewSourcesKeys> for Option<NewSources> {
    fn from(keys: NewSourcesKeys) -> Self {
        keys.rate.map(|rate| NewSources {
            rate,
            burst: keys.burst,
            second_chance: keys.second_chance.unwrap_or(true),
        })
    }
}
