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
mod limits;
mod link;
mod lists;
mod names;
mod options;
mod reply;

use std::fmt;

use redis::{Cmd, FromRedisValue, ToRedisArgs};

use connection::{Call, Connection};
pub use error::Error;
pub use exchange::Of;
pub use heartbeat::{Beat, MEMBERS, Present, is_label};
pub use limits::LIMITS;
pub use lists::{Edit, Entry, Lists, PREFIXES};
pub use names::{Source, name, rights, shard};
pub use options::{Options, Target};

/// A connection to the store. Clones of it share the connection, and may ask at the same time.
#[derive(Clone)]
pub struct Store {
    target: std::sync::Arc<Target>,
    connection: Connection,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("at", &self.at())
            .field("is_cluster", &self.is_cluster())
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Connects once, and sees that it is a store, and whether it is a cluster.
    ///
    /// # Errors
    /// Where it is not reached, does not let this host in, or is something else.
    pub async fn connect(target: &Target) -> Result<Self, Error> {
        Ok(Self {
            connection: Connection::new(target).await?,
            target: std::sync::Arc::new(target.clone()),
        })
    }

    /// Whether it is a cluster: then a round must be about one shard.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        matches!(self.connection, Connection::Cluster(_))
    }

    /// Where it is.
    #[must_use]
    pub fn at(&self) -> &str {
        self.target.at()
    }

    async fn call<T: FromRedisValue>(
        &mut self,
        call: &Call<'_, impl ToRedisArgs>,
    ) -> Result<T, Error> {
        call.on(&mut self.connection, &self.target).await
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Error> {
        self.connection.ask(&self.target, command).await
    }

    fn garbled(&self, what: &str) -> Error {
        Error::Garbled {
            at: self.at().to_owned(),
            what: what.to_owned(),
        }
    }
}
