//! The operations of commands: attach, change, watch, detach.

pub mod attach;
pub mod bans;
mod chain;
mod change;
pub mod detach;
pub mod learn;
pub mod log;
pub mod replace;
pub mod set;
pub mod trial;
pub mod watch;
