//! The store. [`engine`] says what it does for a fleet; `redis` and `postgres` do it. All times are the store's.
//!
//! Data of other hosts is not trusted: malformed data is ignored there and here. Nothing here waits for a store to come
//! back. The caller drops the [`Store`] after an error with [`Error::is_of_the_connection`], and connects again.

mod address;
mod engine;
mod error;
mod exchange;
mod heartbeat;
mod names;
mod options;
mod postgres;
mod redis;
mod socket;
mod stored_lists;
mod stored_prefix;

use std::sync::Arc;

use self::{address::Address, engine::Engine, postgres::Postgres, redis::Redis};
pub use engine::{Changed, LIMITS, MEMBERS, PREFIXES};
pub use error::{Error, Fault};
pub use heartbeat::Beat;
pub use options::{Options, Target};
pub use postgres::SCHEMA;
pub use stored_lists::{Edit, Lists};
pub use stored_prefix::StoredPrefix;

/// A connection to the store. Clones share the connection and can be used at the same time.
#[derive(Clone)]
pub struct Store {
    target: Arc<Target>,
    engine: Arc<dyn Engine>,
}

impl Store {
    /// Connects once, and checks that the server is a store.
    /// Fails if the server cannot be reached, refuses this host, or is not a store.
    pub async fn connect(target: &Arc<Target>) -> Result<Self, Error> {
        let engine: Arc<dyn Engine> = match &target.address {
            Address::Redis(info) => Arc::new(Redis::connect(target, info).await?),
            Address::Postgres(config) => Arc::new(Postgres::connect(target, config).await?),
        };
        let target = Arc::clone(target);
        Ok(Self { target, engine })
    }

    /// A line about settings of the server that endanger the fleet's data.
    pub fn warning(&self) -> Option<String> {
        self.engine.warning()
    }
}
