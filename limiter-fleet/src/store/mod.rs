//! The store. [`engine`] says what it does for a fleet; `redis` and `postgres` do it. All times are the store's.
//!
//! Data of other hosts is not trusted: malformed data is ignored there and here. Nothing here waits for a store to come
//! back. The caller drops the [`Store`] after an error with [`Error::is_of_the_connection`], and connects again.

mod address;
mod connection;
mod engine;
mod error;
mod exchange;
mod heartbeat;
mod lists;
mod names;
mod options;
mod postgres;
mod redis;
mod socket;

pub use connection::Store;
pub use error::{Error, Fault};
pub use heartbeat::{Beat, LIMITS, MEMBERS};
pub use lists::{Changed, Edit, Entry, Lists, PREFIXES};
pub use options::{Options, Target};
pub use postgres::SCHEMA;
