//! Hosts share limits and lists through a store.

mod fleet;
mod fleet_debt;
mod fleet_hosts_postgres;
mod fleet_lists;
mod fleet_postgres;
mod fleet_store;
