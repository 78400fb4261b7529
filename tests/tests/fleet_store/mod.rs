//! The fleet's store works on Redis, within its bounds, with few rights, and in spite of faults. With
//! `LIMITER_REDIS=valkey`, it works on Valkey.

mod access;
mod bounds;
mod client;
mod faults;
mod figures;
mod garbage;
mod hostile;
mod members;
mod restarts;
mod rounds;
mod stored_lists;

use client::{
    Client, FLEET, SECOND, SLOW, expect_fault, options, refused, round, round_of, store, totals,
    try_connect,
};
use limiter_tests::redis::Redis as Server;
