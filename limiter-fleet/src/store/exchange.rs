//! Sends a round to the store, and reads the answer.

use limiter_common::arithmetic::bucket::TICK_SHIFT;

use super::{Store, error::Error, names};
use crate::{host::Limit, ledger::Record, member::Round, quota::Fleet};

const SCRIPT: &str = include_str!("exchange.lua");

/// The largest integer that a double can tell from its neighbours.
pub const MOST: u64 = (1 << 53) - 1;
/// Base lifetime of a record, in milliseconds. Twice the time that the bucket takes to fill is added. A record is kept
/// for at least half of the sum.
const LIFE: u64 = 120_000;
/// Maximum lifetime of a record: 30 days, in milliseconds.
const LIFE_MOST: u64 = 30 * 86_400_000;

impl Store {
    /// Sends a round to the store. Returns a record for each of its items, in the same order. A round that is sent
    /// several times counts once.
    /// Fails if the store is not reached, refuses, or returns an invalid answer. Then the round may have been counted
    /// or not: repeat it unchanged.
    pub async fn exchange(
        &mut self,
        fleet: &str,
        member: u64,
        round: &Round,
        state: Fleet,
    ) -> Result<Vec<Record>, Error> {
        if round.items.is_empty() {
            return Ok(Vec::new());
        }
        let mut quotas: Vec<(u64, u64)> = Vec::new();
        let mut keys = Vec::with_capacity(1 + round.items.len());
        let last_round = format!("m:{member:016x}:{}", round.part);
        keys.push(names::key(fleet, &last_round)?);
        let mut items = Vec::with_capacity(2 * round.items.len());
        let mut caps = Vec::with_capacity(round.items.len());
        for item in &round.items {
            let Limit { quota, held } = &*item.limit;
            keys.push(names::record(fleet, &held.name, &item.key)?);
            let cap = quota.tau.saturating_add(state.debt(quota));
            let quota = (quota.cost, cap);
            let known = quotas.iter().position(|known| *known == quota);
            let index = known.unwrap_or_else(|| {
                quotas.push(quota);
                quotas.len() - 1
            });
            items.extend([item.packets.min(MOST), index as u64 + 1]);
            caps.push(nanoseconds(cap));
        }
        let count = quotas.len();
        let quotas: Vec<_> = quotas.into_iter().flat_map(written).collect();
        let arguments = (round.number, count, quotas, items);
        let answer: Vec<(u64, u64, u64)> = self.call(SCRIPT, &keys, arguments).await?;
        records(&answer, &caps).ok_or_else(|| self.invalid("records that cannot be"))
    }
}

/// Writes cost, cap and lifetime for the script.
fn written((cost, cap): (u64, u64)) -> [String; 3] {
    let cap = nanoseconds(cap);
    let life = LIFE.saturating_add(cap / 500_000).min(LIFE_MOST);
    [exact(cost), cap.to_string(), life.to_string()]
}

/// Writes ticks as nanoseconds with all decimals. The eight fractional bits need eight decimals.
fn exact(ticks: u64) -> String {
    const DECIMALS: u64 = 100_000_000;
    let below = (ticks % (1 << TICK_SHIFT)) * (DECIMALS >> TICK_SHIFT);
    format!("{}.{below:08}", ticks >> TICK_SHIFT)
}

fn nanoseconds(ticks: u64) -> u64 {
    ticks >> TICK_SHIFT
}

/// Checks the script's answer (born, total, level), and converts it to records.
fn records(answer: &[(u64, u64, u64)], caps: &[u64]) -> Option<Vec<Record>> {
    let record = |(&(born, total, level), cap): (&(u64, u64, u64), &u64)| {
        let is_valid =
            born.max(total).max(level) <= MOST && level <= *cap && (born > 0 || total + level == 0);
        let spent = level << TICK_SHIFT;
        is_valid.then_some(Record { born, total, spent })
    };
    let records: Option<Vec<_>> = answer.iter().zip(caps).map(record).collect();
    records.filter(|records| records.len() == caps.len() && records.len() == answer.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_written_exactly() {
        assert_eq!(exact(1), "0.00390625");
        assert_eq!(exact(255), "0.99609375");
        assert_eq!(exact(256 * 7), "7.00000000");
        assert_eq!(exact(u64::MAX), "72057594037927935.99609375");
    }

    #[test]
    fn malformed_script_reply_is_refused() {
        let good = records(&[(5, 7, 9), (0, 0, 0)], &[9, 9]).unwrap();
        let first = Record {
            born: 5,
            total: 7,
            spent: 9 << 8,
        };
        assert_eq!(good, [first, Record::default()]);
        for bad in [
            &[][..],
            &[(5, 7, 9), (5, 7, 9)],
            &[(5, 7, 10)],
            &[(5, MOST + 1, 0)],
            &[(0, 1, 0)],
            &[(0, 0, 1)],
        ] {
            assert_eq!(records(bad, &[9]), None, "{bad:?}");
        }
    }
}
