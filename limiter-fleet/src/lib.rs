//! Limits over many hosts. Each host reports its charges to a store, and charges its own buckets with the packets that
//! the other hosts have passed. docs/fleet.md explains the guarantees.
//!
//! The crate does not depend on attachments and maps: [`host`] is its interface to the host. [`agent`] is the main
//! loop. [`member`], [`ledger`], [`refill`] and [`shared_quota`] are pure functions of the readings.

pub mod agent;
pub mod conflicts;
pub mod host;
pub mod ledger;
pub mod member;
pub mod refill;
mod seen;
pub mod shared_quota;
pub mod status;
pub mod store;
