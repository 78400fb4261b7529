//! The store: Redis 7.0 or Valkey, or a cluster of them. What is kept there is in the scripts beside this file, and is
//! called what `names` says. Only the store's clock is used in it.
//!
//! What others wrote is not trusted: what is not of the form counts as nothing, in the scripts and again here.
//! Nothing here waits for a store to come back: that is the caller's, who throws the [`Store`] away where
//! [`Error::is_of_the_connection`], and connects again.

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

/// A connection to the store. Clones of it share the connection, and may ask at the same time.
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
    /// Connects once, and sees that it is a store, and whether it is a cluster.
    ///
    /// # Errors
    /// Where it is not reached, does not let this host in, or is something else.
    pub async fn connect(target: &Arc<Target>) -> Result<Self, Error> {
        let connection = Connection::new(target).await;
        Ok(Self {
            connection: connection.map_err(|fault| target.error(fault))?,
            target: Arc::clone(target),
        })
    }

    /// Whether it is a cluster: then a round must be about one shard.
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
