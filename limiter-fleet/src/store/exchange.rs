//! Sends a round to the store, and reads the answer.

use limiter_common::{arithmetic::bucket::TICK_SHIFT, table::key::SourceKey};
use redis::{RedisWrite, ToRedisArgs};

use super::{
    Store,
    connection::LuaScript,
    error::{Error, Fault},
    names,
};
use crate::{
    ledger::Record,
    member::{Round, SHARDS},
};

static SCRIPT: LuaScript = LuaScript::new(include_str!("exchange.lua"));

/// The largest integer that a double can tell from its neighbours.
pub const MOST: u64 = (1 << 53) - 1;
/// Base lifetime of a record, in milliseconds. Twice the time that the bucket takes to fill is added. A record is kept
/// for at least half of the sum.
const LIFE: u64 = 120_000;
/// Maximum lifetime of a record: 30 days, in milliseconds.
const LIFE_MOST: u64 = 30 * 86_400_000;

/// An argument of the script. There are two for each source, so they are not converted to separate strings.
enum Argument {
    Number(u64),
    Text(String),
}

impl ToRedisArgs for Argument {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self {
            Self::Number(number) => number.write_redis_args(out),
            Self::Text(text) => text.write_redis_args(out),
        }
    }
}

/// The numbers of a source's limit that the store needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Of<'a> {
    /// Name of the limit.
    pub limit: &'a str,
    /// Cost of a packet in ticks.
    pub cost: u64,
    /// Maximum ticks that the bucket may be spent by: its depth plus the debt.
    pub cap: u64,
}

impl Store {
    /// Sends a round to the store. Returns a record for each of its items, in the same order. A round that is sent
    /// several times counts once. Rounds of different groups may be under way at the same time: clone the store. The
    /// clones share one connection.
    ///
    /// # Errors
    /// Fails if the store is not reached, refuses, or returns an invalid answer. Then the round may have been counted
    /// or not: repeat it unchanged.
    pub async fn exchange<'a>(
        &mut self,
        fleet: &str,
        member: u64,
        round: &Round,
        terms_of: impl Fn(&SourceKey) -> Of<'a>,
    ) -> Result<Vec<Record>, Error> {
        let fleet = names::name(fleet)?;
        if self.is_cluster() && round.group.of != SHARDS {
            return Err(self.target.error(Fault::NotOneShard));
        }
        if round.items.is_empty() {
            return Ok(Vec::new());
        }
        let mut terms: Vec<(u64, u64)> = Vec::new();
        let mut keys = Vec::with_capacity(1 + round.items.len());
        keys.push(names::last_round(fleet, member, round.group));
        let mut items = Vec::with_capacity(2 * round.items.len());
        let mut caps = Vec::with_capacity(round.items.len());
        for item in &round.items {
            let of = terms_of(&item.key);
            keys.push(names::record(fleet, names::name(of.limit)?, &item.key));
            let same = |terms: &(u64, u64)| *terms == (of.cost, of.cap);
            let index = terms.iter().position(same).unwrap_or_else(|| {
                terms.push((of.cost, of.cap));
                terms.len() - 1
            });
            items.push(Argument::Number(item.packets.min(MOST)));
            items.push(Argument::Number(index as u64 + 1));
            caps.push(nanoseconds(of.cap));
        }
        let mut arguments = vec![
            Argument::Number(round.number),
            Argument::Number(terms.len() as u64),
        ];
        arguments.extend(terms.into_iter().flat_map(written).map(Argument::Text));
        arguments.extend(items);
        let answer: Vec<i64> = self.call(&SCRIPT, &keys, &arguments).await?;
        records(&answer, &caps).map_err(|what| self.garbled(what))
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

/// Checks the script's answer, and converts it to records.
fn records(answer: &[i64], caps: &[u64]) -> Result<Vec<Record>, &'static str> {
    if answer.len() != 3 * caps.len() {
        return Err("not as many records as sources");
    }
    let numbers = |of: &[i64]| -> Option<[u64; 3]> {
        let mut numbers = [0; 3];
        for (number, of) in numbers.iter_mut().zip(of) {
            *number = u64::try_from(*of).ok().filter(|number| *number <= MOST)?;
        }
        Some(numbers)
    };
    let mut records = Vec::with_capacity(caps.len());
    for (of, cap) in answer.chunks_exact(3).zip(caps) {
        let [born, total, level] = numbers(of).ok_or("a number that is too large or below 0")?;
        if level > *cap {
            return Err("a bucket that is emptier than it can be");
        }
        if born == 0 && (total > 0 || level > 0) {
            return Err("packets of no record");
        }
        let spent = level << TICK_SHIFT;
        records.push(Record { born, total, spent });
    }
    Ok(records)
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
    fn what_no_script_answers_is_refused() {
        let good = records(&[5, 7, 9, 0, 0, 0], &[9, 9]).unwrap();
        let first = Record {
            born: 5,
            total: 7,
            spent: 9 << 8,
        };
        assert_eq!(good, [first, Record::default()]);
        let most = i64::try_from(MOST).unwrap();
        for bad in [
            &[5, 7][..],
            &[5, 7, 9, 1],
            &[5, 7, 10],
            &[5, -1, 0],
            &[-5, 1, 0],
            &[5, most + 1, 0],
            &[5, i64::MAX, 0],
            &[0, 1, 0],
            &[0, 0, 1],
        ] {
            assert!(records(bad, &[9]).is_err(), "{bad:?}");
        }
    }
}
