//! Reads the buckets of one limit.

use limiter_common::{
    abi::Source,
    arithmetic::{bucket, bucket::Decision, rescale, rescale::Rescale, scale},
    table::entry::epoch_in,
};
use limiter_config::{Invalid, Limit, LimitQuota, Slot};
use limiter_kernel::{Attachment, Result, sys::clock};

use super::CheckedLimit;

/// The shortest Ethernet frame without its checksum: 60 bytes. `retry_after` waits for this frame if packets cost
/// their length.
const SHORTEST_FRAME: u64 = 60;

/// The settings and the time that are needed to read a bucket.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The limit.
    pub limit: Limit,
    /// The limit's position in the maps.
    pub slot: u32,
    /// True if packets over the limit pass.
    pub shadow: bool,
    /// The limit's quota.
    pub quota: LimitQuota,
    /// Number of changes to the quota.
    pub epoch: u32,
    /// The last changes of the quota, newest first.
    pub past: Vec<Rescale>,
    /// The current time, in nanoseconds.
    pub now: u64,
    /// The stretch of costs that is in force.
    pub stretch: u32,
}

/// Creates a reader for each limit, with the current time.
pub fn readers(attachment: &Attachment) -> Result<Vec<Reader>> {
    let Attachment { record, tables, .. } = attachment;
    let now = clock::now()?;
    let limits = record.with_slots().into_iter();
    let readers = limits.map(|(limit, slot)| {
        let stretch = stretch(&limit, tables.scale(slot.number)?, now);
        let shadow = record.settings.shadow;
        let reader = Reader::new(limit, slot, shadow, record.frame_max, now)?;
        Ok(Reader { stretch, ..reader })
    });
    readers.collect()
}

/// The stretch of the costs of a limit with this word of its [`scale`], at `now` (nanoseconds).
pub fn stretch(limit: &Limit, word: u64, now: u64) -> u32 {
    match limit.adaptive {
        Some(_) => scale::stretch(word, || now),
        None => scale::ONE,
    }
}

/// The part of the rate that is in force with stretched costs.
pub fn part(stretch: u32) -> f64 {
    f64::from(scale::ONE) / f64::from(stretch)
}

impl Reader {
    /// Creates the reader of one limit. `shadow`: all limits of the interface are in shadow.
    pub fn new(
        limit: Limit,
        slot: Slot,
        shadow: bool,
        frame_max: u64,
        now: u64,
    ) -> std::result::Result<Self, Invalid> {
        let mut quota = limit.quota(frame_max)?.at_phase(slot.phase);
        if limit.key.is_single() {
            let cpus = clock::possible_cpus().unwrap_or(1) as u64;
            quota.in_kernel = quota.in_kernel.with_leases(cpus).0;
        }
        Ok(Self {
            slot: slot.number,
            shadow: shadow || limit.shadow,
            quota,
            epoch: slot.epoch,
            past: slot.past,
            now,
            stretch: scale::ONE,
            limit,
        })
    }

    /// The bucket's TAT under the present quota. A bucket that is being handed over at this moment counts as full.
    pub fn tat(&self, source: &Source) -> u64 {
        if !bucket::is_time(source.tat) {
            return self.quota.in_kernel.full(self.now);
        }
        let behind = self.epoch.wrapping_sub(epoch_in(source.over, self.epoch));
        let known = u32::try_from(self.past.len()).unwrap_or(0);
        let past = |i: u32| self.past.get(i as usize);
        let tat = rescale::carry_over(source.tat, behind, known, past).unwrap_or(source.tat);
        let corrected = self.quota.in_kernel.corrected(tat, self.now);
        corrected.unwrap_or(tat)
    }

    /// Tokens left, in packets or bytes, between 0 and the burst.
    pub fn tokens(&self, source: &Source) -> f64 {
        let quota = &self.quota.in_kernel;
        let left = quota.left(self.tat(source), self.now);
        let depth = quota.tau - quota.pace;
        left as f64 / depth as f64 * self.quota.burst as f64 * part(self.stretch)
    }

    /// Seconds until the next packet passes.
    pub fn retry_after(&self, source: &Source) -> f64 {
        let quota = &self.quota.in_kernel;
        let cost = scale::cost(quota.cost_of(SHORTEST_FRAME), self.stretch);
        match quota.decide(self.tat(source), self.now, cost) {
            Decision::Admit { .. } => 0.0,
            Decision::Refuse { wait } => wait as f64 / bucket::TICKS_PER_SECOND as f64,
        }
    }

    /// Seconds for which the limit still holds the source. None if it does not.
    pub fn held(&self, source: &Source) -> Option<f64> {
        let quota = &self.quota.in_kernel;
        let nanoseconds = quota.held_for(self.tat(source), self.now)?;
        Some(nanoseconds as f64 / 1e9)
    }

    /// The result of `check` for a bucket. `None` for `source`: the bucket is not in the table.
    pub fn check(&self, bucket: String, source: Option<&Source>) -> CheckedLimit {
        let counts = source.copied().unwrap_or_default();
        let full = (u128::from(self.quota.burst) << 16) / u128::from(self.stretch);
        let full = u64::try_from(full).unwrap_or(u64::MAX);
        CheckedLimit {
            name: self.limit.name.clone(),
            bucket,
            tracked: source.is_some(),
            tokens: source.map_or(full as f64, |source| self.tokens(source)),
            burst_tokens: full,
            retry_after_seconds: Some(source.map_or(0.0, |source| self.retry_after(source))),
            held_seconds: source.and_then(|source| self.held(source)),
            passed_packets: counts.passed,
            dropped_packets: if self.shadow { 0 } else { counts.refused },
            would_drop_packets: if self.shadow { counts.refused } else { 0 },
            connections: None,
            refused: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limiter_config::Scope;

    /// Includes charges of other hosts: no tokens are left, and retry-after includes the debt.
    #[test]
    fn retry_after_includes_debt_of_a_shared_limit() {
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
                slot: 0,
                shadow: false,
                quota: limit.quota(1_522).unwrap(),
                epoch: 0,
                past: Vec::new(),
                now,
                stretch: scale::ONE,
                limit,
            };
            let checked = reader.check(String::new(), Some(&source));
            assert_eq!(
                (checked.tokens, checked.retry_after_seconds),
                (0.0, Some(wait))
            );
        }
    }
}
