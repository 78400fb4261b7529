//! Models the store's data, as bounds, because the store's clock is read before and after each request.

use std::collections::HashMap;

use limiter_fleet::{ledger::Record, member::Round, store::Of};

/// Bounds on a time of the store, in microseconds.
pub type Moment = (u64, u64);

#[derive(Debug)]
struct Kept {
    /// Time at which the record was made.
    born: Moment,
    /// The time in the store's answer.
    reply: Option<u64>,
    total: u64,
    /// Time at which the bucket is full again, in ticks: earliest and latest.
    full: (u128, u128),
}

/// A store.
#[derive(Debug, Default)]
pub struct Model {
    last: HashMap<u64, u64>,
    records: HashMap<String, Kept>,
    /// Lower bound on `born` of the next record.
    latest: HashMap<String, u64>,
}

fn ticks(us: u64) -> u128 {
    u128::from(us) * 256_000
}

impl Model {
    /// Applies a round. Returns an error if the answer is wrong.
    pub fn check(
        &mut self,
        member: u64,
        round: &Round,
        name: impl Fn(&limiter_common::table::key::SourceKey) -> (String, Of<'static>),
        at: Moment,
        answer: &[Record],
    ) -> Result<(), String> {
        let last = self.last.entry(member).or_default();
        let is_new = round.number > *last;
        *last = round.number.max(*last);
        for (item, reply) in round.items.iter().zip(answer) {
            let (name, of) = name(&item.key);
            let packets = if is_new { item.packets } else { 0 };
            if packets > 0 {
                let kept = self.records.entry(name.clone()).or_insert(Kept {
                    born: at,
                    reply: None,
                    total: 0,
                    full: (0, 0),
                });
                kept.total += packets;
                let charge = u128::from(packets) * u128::from(of.cost);
                let add = |full: u128, now: u64| {
                    let now = ticks(now);
                    (full.max(now) + charge).min(now + u128::from(of.cap))
                };
                // The store rounds down to nanoseconds.
                let low = add(kept.full.0, at.0).saturating_sub(256);
                kept.full = (low, add(kept.full.1, at.1));
            }
            let Some(kept) = self.records.get_mut(&name) else {
                if *reply == Record::default() {
                    continue;
                }
                return Err(format!("{name}: a record of nothing: {reply:?}"));
            };
            let born = *kept.reply.get_or_insert(reply.born);
            if born != reply.born || !(kept.born.0..=kept.born.1).contains(&born) {
                return Err(format!("{name}: {reply:?} is not {kept:?}"));
            }
            if self.latest.get(&name).is_some_and(|latest| born < *latest) {
                return Err(format!("{name}: older than one before: {reply:?}"));
            }
            self.latest.insert(name.clone(), born);
            if reply.total != kept.total {
                return Err(format!("{name}: {reply:?} and not {}", kept.total));
            }
            let cap = u128::from(of.cap);
            let least = kept.full.0.saturating_sub(ticks(at.1)).min(cap);
            let most = kept.full.1.saturating_sub(ticks(at.0)).min(cap);
            if !(least..=most).contains(&u128::from(reply.spent)) {
                return Err(format!("{name}: {reply:?} is not in {least}..={most}"));
            }
        }
        Ok(())
    }

    /// Removes a record that is gone, or was overwritten.
    pub fn lose(&mut self, name: &str) {
        self.records.remove(name);
    }

    /// Removes all records.
    pub fn lose_all(&mut self) {
        self.records.clear();
        self.last.clear();
    }
}
