//! One source: what is left in its bucket, and what it has sent.

use std::time::Duration;

use limiter_common::{
    abi::Source,
    arithmetic::{
        bucket::{self, Decision},
        rescale::{self, Rescale},
    },
    table::entry::epoch_in,
};
use serde::{Deserialize, Serialize};

use super::{
    Interface, Verdicts, Word,
    busiest::{Figures, Order},
    live::{Busy, Since, per_second},
    word,
};
use crate::config::{lists::DENY, quota::Terms};

/// A frame of 60 bytes, the shortest that Ethernet carries (without checksum): what `retry_after`
/// waits for where a packet costs by its length.
const SHORTEST_FRAME: u64 = 60;

/// `check --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// Name of the interface.
    pub interface: String,
    /// The source.
    pub source: String,
    /// Whether the interface drops nothing.
    pub shadow: bool,
    /// The list that decides about it before any limit.
    pub listed: Option<&'static str>,
    /// The other lists that limits match it by.
    pub tiers: Vec<String>,
    /// For each of these lists, the prefix by which it decides about the source.
    pub lists: Vec<OnList>,
    /// What each limit says.
    pub limits: Vec<CheckedLimit>,
}

/// The prefix by which a list decides about a source, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OnList {
    /// Name of the list.
    pub list: String,
    /// The prefix.
    pub prefix: String,
    /// `file`, `command` or `fleet`; null if an earlier version has put it there.
    pub by: Option<&'static str>,
    /// The file it comes from; null if another source has put it there.
    pub file: Option<String>,
    /// The host of the fleet that has added it; null if no fleet has, or its agent does not answer.
    pub host: Option<String>,
    /// Since when, RFC 3339; of a prefix from the file, when the file was loaded. Null if it is not known.
    pub since: Option<String>,
    /// Packets that the deny list dropped of this prefix; null of other lists. Exact up to 1,024, an estimate after that.
    pub dropped_packets: Option<u64>,
}

/// One limit's view of a source.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckedLimit {
    /// Name of the limit.
    pub name: String,
    /// What the bucket is kept for: an address, a prefix, with a port perhaps.
    pub bucket: String,
    /// Whether it has a bucket; one that has none has a full one.
    pub tracked: bool,
    /// What is left, in packets or bytes.
    pub tokens: f64,
    /// What a full bucket holds.
    pub burst_tokens: u64,
    /// Until the next packet passes (the shortest frame, where bytes are counted); null for a denied source, because waiting does
    /// not help.
    pub retry_after_seconds: Option<f64>,
    /// Packets that passed.
    pub passed_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Packets that only passed because of shadow; part of `passed_packets`.
    pub would_drop_packets: u64,
}

/// `top --once --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Top {
    /// Name of the interface.
    pub interface: String,
    /// Seconds between the two readings that rates are of; null, as the rates, if there is one reading only.
    pub interval_seconds: Option<f64>,
    /// All packets of the interface by verdict; what was dropped is the sum of all lines below.
    #[serde(flatten)]
    pub verdicts: Verdicts,
    /// Most dropped first, then most passed.
    pub sources: Vec<TopSource>,
    /// Prefixes on the deny list with drops, most dropped first.
    pub denied: Vec<TopDenied>,
    /// What was dropped of no source and prefix above.
    pub other_drops: Vec<TopDrops>,
}

/// A prefix on the deny list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopDenied {
    /// The prefix.
    pub prefix: String,
    /// Packets that the deny list dropped of it. Exact up to 1,024, an estimate after that.
    pub dropped_packets: u64,
    /// The same a second.
    pub dropped_packets_per_second: Option<f64>,
}

/// Drops that are counted for no single source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopDrops {
    /// Why they were dropped; `limit`: sources that are not shown, or are forgotten; `deny`: prefixes that are not shown, or
    /// are not on the list any more.
    #[serde(deserialize_with = "word::one")]
    pub reason: Word,
    /// Packets.
    pub dropped_packets: u64,
    /// The same a second.
    pub dropped_packets_per_second: Option<f64>,
}

/// One line of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopSource {
    /// An address, or a prefix, with a port perhaps.
    pub source: String,
    /// The limit whose bucket it is.
    pub limit: String,
    /// Packets that passed.
    pub passed_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Packets that only passed because of shadow; part of `passed_packets`.
    pub would_drop_packets: u64,
    /// What is left, in packets or bytes.
    pub tokens: f64,
    /// The list that decides about it before any limit.
    #[serde(deserialize_with = "word::perhaps")]
    pub listed: Option<Word>,
    /// Packets that passed, a second.
    pub passed_packets_per_second: Option<f64>,
    /// Packets that were dropped, a second; null of a denied source: its drops are those of its prefix.
    pub dropped_packets_per_second: Option<f64>,
    /// Packets that only passed because of shadow, a second.
    pub would_drop_packets_per_second: Option<f64>,
}

impl Top {
    /// Some of the lines of the live view.
    #[must_use]
    pub fn new(interface: &Interface, rows: Vec<Busy>, elapsed: Option<Duration>) -> Self {
        let rate = |count| elapsed.map(|elapsed| per_second(count, elapsed));
        let (sums, sources): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.reason.is_some());
        let (denied, sums): (Vec<_>, Vec<_>) =
            sums.into_iter().partition(|row| row.network.is_some());
        let denied = denied.into_iter().map(|row| TopDenied {
            prefix: row.source.source,
            dropped_packets: row.figures.over,
            dropped_packets_per_second: rate(row.figures.over_since),
        });
        let drops = sums.into_iter().filter_map(|row| {
            Some(TopDrops {
                reason: row.reason?,
                dropped_packets: row.figures.over,
                dropped_packets_per_second: rate(row.figures.over_since),
            })
        });
        let sources = sources.into_iter().map(|row| {
            let over = |wanted: bool| rate(row.figures.over_since * u64::from(wanted));
            TopSource {
                listed: row.listed,
                passed_packets_per_second: rate(row.figures.passed_since),
                dropped_packets_per_second: over(row.figures.drops)
                    .filter(|_| row.listed != Some(DENY)),
                would_drop_packets_per_second: over(!row.figures.drops),
                ..row.source
            }
        });
        Self {
            interface: interface.name.clone(),
            interval_seconds: elapsed.map(|elapsed| elapsed.as_secs_f64()),
            verdicts: interface.verdicts,
            denied: denied.collect(),
            other_drops: drops.collect(),
            sources: sources.collect(),
        }
    }
}

/// What is needed to read a bucket's word.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Name of the limit.
    pub name: String,
    /// Whether what is over it passes all the same.
    pub shadow: bool,
    /// Its terms.
    pub terms: Terms,
    /// How often they were changed.
    pub epoch: u32,
    /// The last changes, newest first.
    pub past: Vec<Rescale>,
    /// The time, in nanoseconds.
    pub now: u64,
}

impl Reader {
    /// The bucket's word on the present terms. A bucket that is being handed over at this moment
    /// counts as full.
    #[must_use]
    pub fn word(&self, source: &Source) -> u64 {
        if !bucket::is_time(source.tat) {
            return self.terms.in_kernel.full(self.now);
        }
        let behind = self.epoch.wrapping_sub(epoch_in(source.over, self.epoch));
        let known = u32::try_from(self.past.len()).unwrap_or(0);
        let past = |i: u32| self.past.get(i as usize).copied();
        let word = rescale::carry_over(source.tat, behind, known, past).unwrap_or(source.tat);
        let corrected = self.terms.in_kernel.corrected(word, self.now);
        corrected.unwrap_or(word)
    }

    /// Tokens left, in packets or bytes, between 0 and the burst.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
    pub fn tokens(&self, source: &Source) -> f64 {
        let terms = &self.terms.in_kernel;
        let left = terms.left(self.word(source), self.now);
        left as f64 / terms.tau as f64 * self.terms.burst as f64
    }

    /// Seconds until the next packet passes.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
    pub fn retry_after(&self, source: &Source) -> f64 {
        let terms = &self.terms.in_kernel;
        let cost = terms.cost_of(SHORTEST_FRAME);
        match terms.decide(self.word(source), self.now, cost) {
            Decision::Admit { .. } => 0.0,
            Decision::Refuse { wait } => wait as f64 / bucket::TICKS_PER_SECOND as f64,
        }
    }

    fn dropped(&self, source: &Source) -> u64 {
        if self.shadow { 0 } else { source.refused }
    }

    fn would_drop(&self, source: &Source) -> u64 {
        if self.shadow { source.refused } else { 0 }
    }

    /// What `check` says of a bucket; none means that it is not in the table.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
    pub fn check(&self, bucket: String, source: Option<&Source>) -> CheckedLimit {
        let counts = source.copied().unwrap_or_default();
        let burst = self.terms.burst;
        CheckedLimit {
            name: self.name.clone(),
            bucket,
            tracked: source.is_some(),
            tokens: source.map_or(burst as f64, |source| self.tokens(source)),
            burst_tokens: burst,
            retry_after_seconds: Some(source.map_or(0.0, |source| self.retry_after(source))),
            passed_packets: counts.passed,
            dropped_packets: self.dropped(&counts),
            would_drop_packets: self.would_drop(&counts),
        }
    }

    /// What a source is sorted by; its tokens are worked out only where `order` asks for them.
    #[must_use]
    pub fn figures(&self, source: &Source, since: Since, order: Order) -> Figures {
        Figures {
            passed: source.passed,
            over: source.refused,
            drops: !self.shadow,
            passed_since: since.passed,
            over_since: since.over,
            tokens: if order == Order::Tokens {
                self.tokens(source)
            } else {
                0.0
            },
        }
    }

    /// A line of `top`.
    #[must_use]
    pub fn top(&self, name: String, source: &Source) -> TopSource {
        TopSource {
            source: name,
            limit: self.name.clone(),
            passed_packets: source.passed,
            dropped_packets: self.dropped(source),
            would_drop_packets: self.would_drop(source),
            tokens: self.tokens(source),
            listed: None,
            passed_packets_per_second: None,
            dropped_packets_per_second: None,
            would_drop_packets_per_second: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Limit, Scope};

    /// Where others have let packets through: nothing is left, and what is owed is to be waited for too.
    #[test]
    fn who_is_in_debt_waits_for_it() {
        let now = 1_000_000_000_000;
        let seconds = |seconds: u64| seconds * bucket::TICKS_PER_SECOND;
        let source = Source {
            tat: bucket::ticks(now) + seconds(10 + 60),
            ..Source::default()
        };
        for (scope, wait) in [(Scope::Host, 1.0), (Scope::Fleet, 61.0)] {
            let limit = Limit {
                burst: Some("10".parse().unwrap()),
                scope,
                ..Limit::new("one", "1/s".parse().unwrap())
            };
            let reader = Reader {
                name: limit.name.clone(),
                shadow: false,
                terms: limit.terms(1_522).unwrap(),
                epoch: 0,
                past: Vec::new(),
                now,
            };
            let said = reader.check(String::new(), Some(&source));
            assert_eq!((said.tokens, said.retry_after_seconds), (0.0, Some(wait)));
        }
    }
}
