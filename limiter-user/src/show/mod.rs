//! Text for people, made of what `observe` and `plan` found.

pub mod doctor;
pub mod lists;
pub mod log;
pub mod replay;
pub mod source;
pub mod status;
pub mod table;
pub mod top;
pub mod units;
pub mod watch;
