//! One limit over many hosts: what a host has charged is told to a store, and what others have is added to
//! its own buckets. docs/fleet.md says what that guarantees, and why.
//!
//! Everything in here but [`store`] is a pure function of what was seen: the table, the clock and the
//! store are somebody else's.

pub mod account;
pub mod differences;
pub mod member;
pub mod meter;
pub mod store;
pub mod terms;
