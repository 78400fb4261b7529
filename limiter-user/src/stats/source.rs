//! One source: what is left in its bucket, and what it has sent.

use limiter_common::{
    bucket::{self, Decision, Rescale},
    layout::Source,
    limit::Terms,
};
use serde::Serialize;

/// A frame of 60 bytes, the shortest that Ethernet carries (without checksum): what `retry_after`
/// waits for where a packet costs by its length.
const SHORTEST_FRAME: u64 = 60;

/// `check --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Name of the interface.
    pub interface: String,
    /// The source, as its bucket's key: an address, or a prefix.
    pub source: String,
    /// The list that decides about it before any limit.
    pub listed: Option<&'static str>,
    /// What each limit says.
    pub limits: Vec<CheckedLimit>,
}

/// One limit's view of a source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedLimit {
    /// Name of the limit.
    pub name: String,
    /// Whether it has a bucket; one that has none has a full one.
    pub tracked: bool,
    /// What is left, in packets or bytes.
    pub tokens: f64,
    /// What a full bucket holds.
    pub burst: u64,
    /// Until the next packet passes (the shortest frame, where bytes are counted).
    pub retry_after_seconds: f64,
    /// Packets that passed.
    pub passed: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets that only passed because of shadow; part of `passed`.
    pub would_drop: u64,
}

/// `top --once --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Top {
    /// Name of the interface.
    pub interface: String,
    /// Most dropped first, then most passed.
    pub sources: Vec<TopSource>,
}

/// One line of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopSource {
    /// An address, or a prefix.
    pub source: String,
    /// Packets that passed.
    pub passed: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets that only passed because of shadow; part of `passed`.
    pub would_drop: u64,
    /// Bytes that passed.
    pub passed_bytes: u64,
    /// Bytes that were dropped.
    pub dropped_bytes: u64,
    /// What is left, in packets or bytes.
    pub tokens: f64,
}

/// What is needed to read a bucket's word.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The limit's terms.
    pub terms: Terms,
    /// Tokens of a full bucket.
    pub burst: u64,
    /// How often the terms were changed.
    pub epoch: u32,
    /// The last changes, newest first.
    pub past: Vec<Rescale>,
    /// The time, in ticks.
    pub now: u64,
}

impl Reader {
    /// The bucket's word on the present terms. A bucket that is being handed over at this moment
    /// counts as full.
    fn word(&self, source: &Source) -> u64 {
        if !bucket::is_time(source.tat) {
            return self.now;
        }
        let behind = self.epoch.wrapping_sub(source.epoch);
        let known = u32::try_from(self.past.len()).unwrap_or(0);
        let word = bucket::carry_over(source.tat, behind, known, |i| {
            self.past.get(i as usize).copied()
        })
        .unwrap_or(source.tat);
        bucket::corrected(word, self.now, self.terms.tau).unwrap_or(word)
    }

    /// Tokens left, in packets or bytes, between 0 and the burst.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
    pub fn tokens(&self, source: &Source) -> f64 {
        let left = self.terms.tau - bucket::spent(self.word(source), self.now, self.terms.tau);
        left as f64 / self.terms.tau as f64 * self.burst as f64
    }

    /// Seconds until the next packet passes.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
    pub fn retry_after(&self, source: &Source) -> f64 {
        let cost = self.terms.cost_of(SHORTEST_FRAME);
        match bucket::decide(self.word(source), self.now, cost, self.terms.tau) {
            Decision::Admit { .. } => 0.0,
            Decision::Refuse { wait } => wait as f64 / bucket::TICKS_PER_SECOND as f64,
        }
    }

    /// What `check` says of a source; none means that it is not in the table.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
    pub fn check(&self, name: &str, source: Option<&Source>) -> CheckedLimit {
        let counts = source.copied().unwrap_or_default();
        CheckedLimit {
            name: name.to_owned(),
            tracked: source.is_some(),
            tokens: source.map_or(self.burst as f64, |source| self.tokens(source)),
            burst: self.burst,
            retry_after_seconds: source.map_or(0.0, |source| self.retry_after(source)),
            passed: counts.passed.packets,
            dropped: counts.dropped.packets,
            would_drop: counts.would_drop.packets,
        }
    }

    /// A line of `top`.
    #[must_use]
    pub fn top(&self, name: String, source: &Source) -> TopSource {
        TopSource {
            source: name,
            passed: source.passed.packets,
            dropped: source.dropped.packets,
            would_drop: source.would_drop.packets,
            passed_bytes: source.passed.bytes,
            dropped_bytes: source.dropped.bytes,
            tokens: self.tokens(source),
        }
    }
}
