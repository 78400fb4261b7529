//! What is under way to the store and back.

use std::{collections::HashMap, net::IpAddr, time::Instant};

use futures_util::{future::LocalBoxFuture, stream::FuturesUnordered};
use limiter_common::table::key::SourceKey;

use super::{attached::Attached, pace::Pace};
use crate::{
    conflicts::Held,
    host::Table,
    ledger::Record,
    member::{Group, Round, SHARDS},
    quota::Fleet,
    store::{Beat, Error, Lists, Of, Store},
};

/// Something that the store has said, or has not.
#[derive(Debug)]
pub enum Came {
    /// An answer to a round.
    Answer {
        /// The member's id.
        member: u64,
        /// The round's number.
        number: u64,
        /// Its group.
        group: Group,
        /// When it was sent, this time.
        sent: Instant,
        /// What it says.
        records: Result<Vec<Record>, Error>,
    },
    /// An answer to a heartbeat, with the moment in which that was sent.
    Beat(u64, Instant, Result<Beat, Error>),
    /// What a member has told of its limits, and what all hosts of its fleet have.
    Compared(u64, Vec<Held>, Result<Vec<Held>, Error>),
    /// The lists of a member's fleet, by their names: its reading of that number.
    Lists(u64, u64, Vec<String>, Result<Lists, Error>),
    /// Whether a member could put back how many prefixes that the store had lost.
    Restored(u64, Result<u64, Error>),
    /// A connection, and the addresses of the store.
    Connected(Result<(Store, Vec<IpAddr>), Error>),
}

/// Sources that are told of at once, but for a round alone that has more: a store takes a fifth of a second for as many,
/// and this process nearly as long to write them.
const AT_ONCE: usize = 50_000;

/// All that is under way.
pub struct UnderWay {
    /// What comes.
    pub coming: FuturesUnordered<LocalBoxFuture<'static, Came>>,
    /// Sources of each round.
    groups: HashMap<(u64, Group), usize>,
    pace: Pace,
}

impl Default for UnderWay {
    fn default() -> Self {
        Self {
            coming: FuturesUnordered::new(),
            groups: HashMap::new(),
            pace: Pace::new(SHARDS as usize),
        }
    }
}

impl UnderWay {
    /// There is another connection: what waits for the one before it waits in vain.
    pub fn begin_anew(&mut self) {
        self.coming.clear();
        self.groups.clear();
        self.pace.begin_anew();
    }

    /// Rounds of a member.
    pub fn of(&self, member: u64) -> usize {
        let groups = self.groups.keys();
        groups.filter(|(of, _)| *of == member).count()
    }

    /// Sends those of a member's rounds that are not on their way, as far as the pace allows.
    pub fn send(&mut self, store: &Store, member: &Attached<impl Table>, fleet: Fleet) {
        let room = self.pace.window().saturating_sub(self.of(member.id));
        if room == 0 {
            return;
        }
        let is_waiting = |round: &&Round| !self.groups.contains_key(&(member.id, round.group));
        let mut waiting: Vec<_> = member.unanswered().filter(is_waiting).collect();
        // Who has waited longest comes first, or some would never come.
        waiting.sort_unstable_by_key(|round| round.number);
        let mut sources: usize = self.groups.values().sum();
        for round in waiting.into_iter().take(room) {
            if sources > 0 && sources + round.items.len() > AT_ONCE {
                break;
            }
            sources += round.items.len();
            self.groups
                .insert((member.id, round.group), round.items.len());
            let (mut store, name, id) = (store.clone(), member.about().fleet.clone(), member.id);
            let round = round.clone();
            let (limits, sent) = (limits(member, &round, fleet), Instant::now());
            self.coming.push(Box::pin(async move {
                let of = |key: &SourceKey| {
                    let (limit, cost, cap) = &limits[&key.slot()];
                    Of {
                        limit: limit.as_str(),
                        cost: *cost,
                        cap: *cap,
                    }
                };
                let records = store.exchange(&name, id, &round, of).await;
                Came::Answer {
                    member: id,
                    number: round.number,
                    group: round.group,
                    sent,
                    records,
                }
            }));
        }
    }

    /// A round has come back.
    pub fn arrived(&mut self, member: u64, group: Group, sent: Instant) {
        self.groups.remove(&(member, group));
        self.pace.answered(sent.elapsed());
    }

    /// A round has not come back, or with an error.
    pub fn failed(&mut self, member: u64, group: Group, error: &Error) {
        if matches!(error, Error::Timeout { .. }) {
            self.pace.lapsed(self.of(member));
        }
        self.groups.remove(&(member, group));
    }
}

/// Name, cost and cap of each limit that a round is about, by its slot.
fn limits(
    member: &Attached<impl Table>,
    round: &Round,
    fleet: Fleet,
) -> HashMap<u32, (String, u64, u64)> {
    let mut limits = HashMap::new();
    for item in &round.items {
        limits.entry(item.key.slot()).or_insert_with(|| {
            // Each round is about limits that were there when it was made.
            member.limit(round.group, &item.key).map_or_else(
                || ("gone".to_owned(), 1, 0),
                |(name, terms)| {
                    let cap = terms.tau.saturating_add(fleet.debt(&terms));
                    (name, terms.cost, cap)
                },
            )
        });
    }
    limits
}
