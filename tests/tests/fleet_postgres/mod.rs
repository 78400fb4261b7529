//! The fleet's store works on PostgreSQL as on Redis, in any isolation, with few rights, and in spite of faults.

mod access;
#[path = "../fleet_store/bounds.rs"]
mod bounds;
mod buckets;
#[path = "../fleet_store/client.rs"]
mod client;
mod closed;
mod faults;
#[path = "../fleet_store/figures.rs"]
mod figures;
mod hostile;
#[path = "../fleet_store/members.rs"]
mod members;
mod order;
#[path = "../fleet_store/restarts.rs"]
mod restarts;
#[path = "../fleet_store/rounds.rs"]
mod rounds;
#[path = "../fleet_store/stored_lists.rs"]
mod stored_lists;

use client::{
    Client, FLEET, SECOND, SLOW, expect_fault, options, refused, round, round_of, store, totals,
    try_connect,
};
use limiter_tests::postgres::Postgres as Server;
