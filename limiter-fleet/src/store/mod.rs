//! The store: Redis 7.0 or Valkey, or a cluster. The scripts in this folder define the stored data, `names` its keys.
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
mod reply;

use std::{fmt, sync::Arc};

use redis::{FromRedisValue, ToRedisArgs};

use connection::{Connection, LuaScript};
pub use error::{Error, Fault};
pub use exchange::Of;
pub use heartbeat::{Beat, LIMITS, MEMBERS};
pub use lists::{Changed, Edit, Entry, Lists, PREFIXES};
pub use names::{Source, name, shard};
pub use options::{Options, Target};

/// A connection to the store. Clones share the connection and can be used at the same time.
#[derive(Clone)]
pub struct Store {
    target: Arc<Target>,
    connection: Connection,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}

impl Store {
    /// Connects once. Checks that the server is a store, and whether it is a cluster.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, refuses this host, or is not a store.
    pub async fn connect(target: &Arc<Target>) -> Result<Self, Error> {
        let connection = Connection::new(target).await;
        Ok(Self {
            connection: connection.map_err(|fault| target.error(fault))?,
            target: Arc::clone(target),
        })
    }

    /// Whether the store is a cluster. Then each round must be about one shard.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        matches!(self.connection, Connection::Cluster(_))
    }

    async fn call<T: FromRedisValue>(
        &mut self,
        script: &LuaScript,
        keys: &[String],
        arguments: &[impl ToRedisArgs],
    ) -> Result<T, Error> {
        let Self { target, connection } = self;
        let answer = connection.call(target, script, keys, arguments).await;
        answer.map_err(|fault| target.error(fault))
    }

    fn garbled(&self, what: &str) -> Error {
        self.target.error(Fault::Garbled(what.to_owned()))
    }
}
