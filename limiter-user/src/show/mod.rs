//! Text for people, from the results of `observe` and `plan`.

pub mod bans;
pub mod check;
pub mod comparison;
pub mod connections;
pub mod doctor;
pub mod flood;
pub mod history;
pub mod limits;
pub mod list;
pub mod live;
pub mod log;
pub mod page;
pub mod replay;
pub mod screen;
pub mod senders;
pub mod status;
pub mod table;
pub mod top;
pub mod units;
pub mod watch;
