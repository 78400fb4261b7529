//! The store: Redis 7.0 or Valkey. The scripts in this folder define the stored data, `names` its keys.
//! All times are the store's.
//!
//! Data of other hosts is not trusted: the scripts and this module ignore malformed data. Nothing here waits for a
//! store to come back. The caller drops the [`Store`] after an error with [`Error::is_of_the_connection`], and
//! connects again.

mod connection;
mod error;
mod exchange;
mod heartbeat;
mod link;
mod lists;
mod names;
mod options;

pub use connection::Store;
pub use error::{Error, Fault};
pub use heartbeat::{Beat, LIMITS, MEMBERS};
pub use lists::{Changed, Edit, Entry, Lists, PREFIXES};
pub use options::{Options, Target};
