//! Limits over many hosts. Each host reports its charges to a store, and charges its own buckets with the packets that
//! the other hosts have passed. docs/fleet.md explains the guarantees.
//!
//! The crate does not depend on attachments and maps: [`host`] is its interface to the host. [`agent`] is the main
//! loop. [`member`], [`ledger`], [`refill`] and [`shared_quota`] are pure functions of the readings.

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "agent")]
pub mod conflicts;
#[cfg(feature = "agent")]
pub mod host;
#[cfg(feature = "agent")]
pub mod ledger;
#[cfg(feature = "agent")]
pub mod member;
pub mod question;
#[cfg(feature = "agent")]
pub mod refill;
#[cfg(feature = "agent")]
mod seen;
#[cfg(feature = "agent")]
pub mod shared_quota;
pub mod status;
#[cfg(feature = "agent")]
pub mod store;
