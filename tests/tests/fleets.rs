//! Hosts share limits and lists through a store.

#![allow(
    clippy::duplicate_mod,
    reason = "the same tests run with Redis and with PostgreSQL"
)]

mod fleet;
mod fleet_debt;
mod fleet_hosts_postgres;
mod fleet_lists;
mod fleet_postgres;
mod fleet_store;
