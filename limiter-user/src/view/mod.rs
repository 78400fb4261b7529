//! Text for people. Sees only [`crate::stats`].

pub mod demo;
pub mod doctor;
pub mod log;
pub mod source;
pub mod status;
pub mod units;
pub mod watch;
