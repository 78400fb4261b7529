//! The tests of `fleet_store` pass with Valkey as the store too.

#[path = "fleet_store/main.rs"]
mod fleet_store;
