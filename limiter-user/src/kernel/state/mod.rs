//! Pins of an interface: the folder, the record of the configuration, the program that limiter runs in front of.

pub mod attachment;
pub mod current;
pub mod foreign;
pub(in crate::kernel) mod generation;
pub mod occupant;
pub mod pins;
pub mod record;
mod sound;
pub(in crate::kernel) mod survey;
pub(in crate::kernel) mod unpin;
