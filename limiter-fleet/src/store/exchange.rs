//! Sends a round to the store, and reads the answer.

use limiter_common::arithmetic::bucket::TICK_SHIFT;

use super::{
    Store,
    engine::{Charge, Charges, MOST, StoredRecord, Terms},
    error::Error,
    names,
};
use crate::{host::Limit, ledger::Record, member::Round, shared_quota::Fleet};

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
        let mut charges = Charges {
            fleet: names::name(fleet)?,
            member,
            part: round.part,
            number: round.number,
            terms: Vec::new(),
            items: Vec::with_capacity(round.items.len()),
        };
        for item in &round.items {
            let now = terms(&item.limit, state);
            let known = charges.terms.iter().position(|known| *known == now);
            if known.is_none() {
                names::name(now.limit)?;
                charges.terms.push(now);
            }
            charges.items.push(Charge {
                source: names::source(&item.key),
                packets: item.packets.min(MOST),
                terms: known.unwrap_or(charges.terms.len() - 1),
            });
        }
        let answer = self.engine.exchange(&charges).await?;
        records(&answer, &charges).ok_or_else(|| self.target.invalid("records that cannot be"))
    }
}

fn terms(limit: &Limit, state: Fleet) -> Terms<'_> {
    let Limit { quota, held } = limit;
    let cap = nanoseconds(quota.tau.saturating_add(state.debt(quota))).min(MOST / 2);
    Terms {
        limit: &held.name,
        cost: quota.cost,
        cap,
        life: LIFE.saturating_add(cap / 500_000).min(LIFE_MOST),
    }
}

fn nanoseconds(ticks: u64) -> u64 {
    ticks >> TICK_SHIFT
}

/// Checks the answer, and converts it to records.
fn records(answer: &[StoredRecord], charges: &Charges<'_>) -> Option<Vec<Record>> {
    let record = |(stored, charge): (&StoredRecord, &Charge)| {
        let StoredRecord { born, total, level } = *stored;
        let cap = charges.terms[charge.terms].cap;
        let is_valid =
            born.max(total).max(level) <= MOST && level <= cap && (born > 0 || total + level == 0);
        let spent = level << TICK_SHIFT;
        is_valid.then_some(Record { born, total, spent })
    };
    let records: Option<Vec<_>> = answer.iter().zip(&charges.items).map(record).collect();
    records.filter(|records| records.len() == charges.items.len() && records.len() == answer.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{conflicts::Held, shared_quota::Quota};

    /// Charges of sources that have this cap.
    fn charges(sources: usize, cap: u64) -> Charges<'static> {
        let (limit, cost, life) = ("all", 1, 1);
        let charge = |_| Charge {
            source: String::new(),
            packets: 1,
            terms: 0,
        };
        Charges {
            fleet: "edge",
            member: 1,
            part: 0,
            number: 1,
            terms: vec![Terms {
                limit,
                cost,
                cap,
                life,
            }],
            items: (0..sources).map(charge).collect(),
        }
    }

    /// Otherwise the answer to a source that uses such a burst would be refused, and the round repeated for days. Redis
    /// has as much again for the record's age.
    #[test]
    fn burst_of_half_a_year_has_a_record() {
        const DAY: u64 = 86_400_000_000_000 << TICK_SHIFT;
        let (tau, cost, epoch) = (150 * DAY, DAY, 1);
        let (quota, held) = (Quota { tau, cost, epoch }, Held::default());
        let limit = Limit { quota, held };
        assert_eq!(terms(&limit, Fleet::default()).cap, MOST / 2);
    }

    #[test]
    fn malformed_reply_to_a_round_is_refused() {
        let stored = |(born, total, level)| StoredRecord { born, total, level };
        let good = [(5, 7, 9), (0, 0, 0)].map(stored);
        let good = records(&good, &charges(2, 9)).unwrap();
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
            let bad: Vec<_> = bad.iter().copied().map(stored).collect();
            assert_eq!(records(&bad, &charges(1, 9)), None, "{bad:?}");
        }
    }
}
