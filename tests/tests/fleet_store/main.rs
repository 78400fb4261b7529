//! The fleet's store works on real servers, within its bounds, with few rights, and in spite of faults.

mod access;
mod bounds;
mod faults;
mod lists;
mod members;
mod rounds;

use std::{sync::Arc, time::Duration};

use limiter_common::{
    arithmetic::bucket::TICKS_PER_SECOND,
    table::key::{IPV4, SourceKey, ipv4_words},
};
use limiter_fleet::{
    conflicts::Held,
    host::Limit,
    ledger::Record,
    member::{Item, Round},
    quota::{Fleet, Quota},
    store::{Error, Options, Store, Target},
};
use limiter_tests::redis::{PATIENCE, Redis};
use tokio::runtime::{Builder, Runtime};

const SECOND: u64 = TICKS_PER_SECOND;
const FLEET: &str = "edge";
/// A fleet of one host.
const ALONE: Fleet = Fleet {
    hosts: 1,
    staleness: Duration::ZERO,
};
/// Name and depth of a limit of one packet per second, burst 1,000.
const SLOW: (&str, u64) = ("http", 1_000 * SECOND);

/// A limit of one packet per second.
fn limit((name, tau): (&str, u64)) -> Arc<Limit> {
    let quota = Quota {
        tau,
        cost: SECOND,
        epoch: 0,
    };
    let name = name.to_owned();
    let held = Held {
        name,
        ..Held::default()
    };
    Arc::new(Limit { quota, held })
}

/// A store, and a runtime for its requests.
struct Asked {
    runtime: Runtime,
    store: Store,
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn options(url: &str) -> Options {
    Options {
        connect_timeout: PATIENCE,
        response_timeout: PATIENCE,
        ..Options::new(url)
    }
}

fn try_connect(options: &Options) -> Result<Asked, Error> {
    let runtime = runtime();
    let target = Target::read(options)?;
    let store = runtime.block_on(Store::connect(&target))?;
    Ok(Asked { runtime, store })
}

fn refused(options: &Options) -> Error {
    match try_connect(options) {
        Ok(_) => panic!("the store accepted the connection"),
        Err(error) => error,
    }
}

/// Panics unless the error is this fault of the store. Returns the error.
macro_rules! expect_fault {
    ($fault:pat, $error:expr) => {{
        let error = $error;
        let is_it = matches!(error, limiter_fleet::store::Error::At(_, $fault));
        assert!(is_it, "{error}");
        error
    }};
}
use expect_fault;

/// Starts a store, and connects to it. Returns from the test if no store is installed.
macro_rules! store {
    () => {{
        limiter_tests::need_redis!();
        let redis = limiter_tests::redis::Redis::start();
        let store = super::Asked::of(&redis);
        (redis, store)
    }};
}
use store;

impl Asked {
    fn of(redis: &Redis<'_>) -> Self {
        try_connect(&options(&redis.url())).unwrap()
    }

    fn try_exchange(&mut self, member: u64, round: &Round) -> Result<Vec<Record>, Error> {
        let exchange = self.store.exchange(FLEET, member, round, ALONE);
        self.runtime.block_on(exchange)
    }

    fn exchange(&mut self, member: u64, round: &Round) -> Vec<Record> {
        self.try_exchange(member, round).unwrap()
    }

    /// The store's records of sources, read as another member.
    fn records(&mut self, sources: &[u32]) -> Vec<Record> {
        let items: Vec<_> = sources.iter().map(|source| (*source, 0)).collect();
        self.exchange(0xa5, &round(1, &items))
    }

    /// The store's time, in microseconds.
    fn now(&mut self) -> u64 {
        let beat = self
            .store
            .heartbeat("clock", 1, "clock", &[], Duration::from_secs(60));
        let now = self.runtime.block_on(beat).unwrap().now;
        now.as_micros().try_into().unwrap()
    }
}

/// A source of the first limit.
fn source(number: u32) -> SourceKey {
    SourceKey::new(IPV4, ipv4_words((0x0a00_0000 + number).to_be()), 0, 0)
}

/// A round of sources of [`SLOW`], each with its number of packets.
fn round(number: u64, items: &[(u32, u64)]) -> Round {
    round_of(SLOW, number, items)
}

fn round_of(of: (&str, u64), number: u64, items: &[(u32, u64)]) -> Round {
    let limit = limit(of);
    Round {
        part: 0,
        number,
        items: items
            .iter()
            .map(|(source, packets)| Item {
                key: self::source(*source),
                limit: Arc::clone(&limit),
                packets: *packets,
            })
            .collect(),
    }
}

fn totals(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.total).collect()
}
