//! Text for people. Sees only [`crate::observe`].

pub mod demo;
pub mod doctor;
pub mod lists;
pub mod log;
pub mod replay;
pub mod source;
pub mod status;
pub mod top;
pub mod units;
pub mod watch;
