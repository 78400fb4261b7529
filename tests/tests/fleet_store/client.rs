//! Asks a store as an agent does.

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
    shared_quota::{Fleet, Quota},
    store::{Error, Options, Store, Target},
};
use limiter_tests::redis::PATIENCE;

use tokio::runtime::{Builder, Runtime};

use super::Server;

pub const SECOND: u64 = TICKS_PER_SECOND;
pub const FLEET: &str = "edge";
/// A fleet of one host.
pub const ALONE: Fleet = Fleet {
    hosts: 1,
    staleness: Duration::ZERO,
};
/// Name and depth of a limit of one packet per second, burst 1,000.
pub const SLOW: (&str, u64) = ("http", 1_000 * SECOND);

/// A store, and a runtime for its requests.
pub struct Client {
    pub runtime: Runtime,
    pub store: Store,
}

pub fn options(url: &str) -> Options {
    Options {
        timeout: PATIENCE,
        ..Options::new(url)
    }
}

pub fn try_connect(options: &Options) -> Result<Client, Error> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let target = Target::read(options)?;
    let store = runtime.block_on(Store::connect(&target))?;
    Ok(Client { runtime, store })
}

pub fn refused(options: &Options) -> Error {
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
pub(super) use expect_fault;

/// Starts a store, and connects to it. Returns from the test if no store is installed.
macro_rules! store {
    () => {{
        if !super::Server::is_there(concat!(module_path!(), ", line ", line!())) {
            return;
        }
        let server = super::Server::start();
        let store = super::Client::of(&server);
        (server, store)
    }};
}
pub(super) use store;

impl Client {
    pub fn of(server: &Server<'_>) -> Self {
        try_connect(&options(&server.agent_url())).unwrap()
    }

    pub fn try_exchange(
        &mut self,
        fleet: &str,
        member: u64,
        round: &Round,
    ) -> Result<Vec<Record>, Error> {
        let exchange = self.store.exchange(fleet, member, round, ALONE);
        self.runtime.block_on(exchange)
    }

    pub fn exchange(&mut self, member: u64, round: &Round) -> Vec<Record> {
        self.try_exchange(FLEET, member, round).unwrap()
    }

    /// Sends a round of the first member. Returns the totals of the records.
    pub fn totals(&mut self, number: u64, items: &[(u32, u64)]) -> Vec<u64> {
        totals(&self.exchange(1, &round(number, items)))
    }

    /// Sends a round of the first member that must fail.
    pub fn fails(&mut self, number: u64, items: &[(u32, u64)]) -> Error {
        let answer = self.try_exchange(FLEET, 1, &round(number, items));
        answer.unwrap_err()
    }
}

/// A round of sources of [`SLOW`], each with its number of packets.
pub fn round(number: u64, items: &[(u32, u64)]) -> Round {
    round_of(SLOW, number, items)
}

/// A round of a limit of one packet per second.
pub fn round_of((name, tau): (&str, u64), number: u64, items: &[(u32, u64)]) -> Round {
    let held = Held {
        name: name.to_owned(),
        ..Held::default()
    };
    let (cost, epoch) = (SECOND, 0);
    let quota = Quota { tau, cost, epoch };
    let limit = Arc::new(Limit { quota, held });
    let item = |&(source, packets): &(u32, u64)| Item {
        key: SourceKey::new(IPV4, ipv4_words((0x0a00_0000 + source).to_be()), 0, 0),
        limit: Arc::clone(&limit),
        packets,
    };
    Round {
        part: 0,
        number,
        items: items.iter().map(item).collect(),
    }
}

pub fn totals(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.total).collect()
}
