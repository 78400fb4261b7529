//! What commands do: attach, change, watch, detach.

pub mod attach;
pub mod chain;
pub mod detach;
pub mod learn;
pub mod log;
pub mod replace;
pub mod replay;
pub mod set;
pub mod watch;
