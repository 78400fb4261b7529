//! Simulates one member of a fleet.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use limiter_common::{
    arithmetic::bucket::TICKS_PER_SECOND,
    table::key::{IPV4, SLOTS, SourceKey, ipv4_words},
};
use limiter_fleet::{
    conflicts::Held,
    host::Limit,
    ledger::Record,
    member::{Group, Member, Sighting},
    quota::{Fleet, Quota},
    refill::Reading,
    store::{Error, Store, shard},
};

use super::case::Case;

pub const FLEET: &str = "bench";
pub const LIMIT: &str = "http";
/// 100 packets a second, burst 10.
const QUOTA: Quota = Quota {
    tau: TICKS_PER_SECOND / 10,
    cost: TICKS_PER_SECOND / 100,
    epoch: 0,
};
/// Packets of each source between two scans.
const PACKETS: u64 = 3;

/// A member, and its connection.
pub struct Simulated {
    pub id: u64,
    pub store: Store,
    number: u32,
    case: Case,
    member: Member,
    turn: u64,
    began: Instant,
}

impl Simulated {
    pub fn new(case: Case, number: u32, store: Store) -> Self {
        Self {
            id: u64::from(number) + 1,
            number,
            case,
            member: Member::new(case.sources as usize, store.is_cluster()),
            turn: 0,
            began: Instant::now(),
            store,
        }
    }

    fn fleet(&self) -> Fleet {
        Fleet {
            hosts: self.case.agents,
            staleness: Duration::from_millis(400),
        }
    }

    /// Charges and scans all sources, and exchanges the changes with the store as the agent does. Returns the duration.
    pub async fn round(&mut self) -> Result<Duration> {
        let began = Instant::now();
        self.scan();
        let (id, fleet) = (self.id, self.fleet());
        type Answer = (u64, Group, Result<Vec<Record>, Error>);
        let coming: FuturesUnordered<_> = self
            .member
            .unanswered()
            .map(|round| {
                let (mut store, round) = (self.store.clone(), round.clone());
                async move {
                    let records = store.exchange(FLEET, id, &round, fleet).await;
                    (round.number, round.group, records) as Answer
                }
            })
            .collect();
        let mut coming = coming;
        while let Some((number, group, records)) = coming.next().await {
            self.take(number, group, &records?);
        }
        Ok(began.elapsed())
    }

    fn now(&self) -> u64 {
        let nanoseconds = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(0);
        (1 << 60) + (nanoseconds << 8)
    }

    fn sighting(&self, number: usize, key: &SourceKey) -> Sighting {
        let now = self.now();
        Sighting {
            number,
            key: *key,
            reading: Reading {
                tat: now + QUOTA.tau,
                epoch: QUOTA.epoch,
                now,
            },
            admitted: self.turn * PACKETS,
        }
    }

    fn scan(&mut self) {
        self.turn += 1;
        let held = Held {
            name: LIMIT.to_owned(),
            ..Held::default()
        };
        let mut limits = [const { None }; SLOTS as usize];
        limits[0] = Some(Arc::new(Limit { quota: QUOTA, held }));
        self.member.begin(&limits, self.fleet());
        for index in 0..self.case.sources {
            let key = key(self.case.source(self.number, index));
            let sighting = self.sighting(index as usize, &key);
            self.member.sight(&sighting);
        }
        let _ = self.member.end(shard);
    }

    fn take(&mut self, number: u64, group: Group, records: &[Record]) {
        let admitted = self.turn * PACKETS;
        let now = self.now();
        let charges = self.member.answer(number, group, records, |number, key| {
            Some(Sighting {
                number,
                key: *key,
                reading: Reading {
                    tat: now + QUOTA.tau,
                    epoch: QUOTA.epoch,
                    now,
                },
                admitted,
            })
        });
        for charge in charges {
            self.member.added(&charge.key, charge.ticks);
        }
    }
}

fn key(source: u32) -> SourceKey {
    SourceKey {
        // Random networks. Most of their addresses have the greatest length as text.
        address: ipv4_words(source.wrapping_mul(0x9e37_79b1).to_be()),
        scope: IPV4,
        reserved: 0,
    }
}
