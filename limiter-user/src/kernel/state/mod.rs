//! What is pinned for an interface: its folder, the record of its configuration, the program that limiter runs in front of.

pub mod attachment;
pub mod current;
pub mod foreign;
pub(in crate::kernel) mod generation;
pub mod occupant;
pub mod pins;
pub mod record;
mod sound;
pub(in crate::kernel) mod unpin;
