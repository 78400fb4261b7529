//! The tests of `fleet_store` once more, with Valkey as the store.

#[path = "fleet_store/main.rs"]
mod fleet_store;
