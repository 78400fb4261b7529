//! One limit over many hosts: each host tells a store what it has charged, and charges its own buckets with what the other
//! hosts have let through. docs/fleet.md says what that guarantees, and why.
//!
//! The crate knows nothing of attachments and maps: [`host`] is all that it sees of this host. [`agent`] is the loop.
//! [`member`], [`ledger`], [`refill`] and [`quota`] are pure functions of what was seen.

pub mod agent;
pub mod conflicts;
pub mod host;
pub mod ledger;
pub mod member;
pub mod quota;
pub mod refill;
pub mod status;
pub mod store;
mod text;
