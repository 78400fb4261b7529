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
mod servers;
mod socket;
mod stored_lists;
mod stored_prefix;

use std::{net::IpAddr, sync::Arc};

use self::{
    address::Kind,
    engine::Engine,
    postgres::Postgres,
    redis::{Redis, sentinel},
};
pub use crate::question::Edit;
pub use address::client_files;
pub use engine::{Changed, LIMITS, MEMBERS, PREFIXES};
pub use error::{Error, Fault};
pub use heartbeat::Beat;
pub use options::{Options, Target};
pub use postgres::SCHEMA;
pub use stored_lists::Lists;
pub use stored_prefix::StoredPrefix;

/// A connection to the store. Clones share the connection and can be used at the same time.
#[derive(Clone)]
pub struct Store {
    target: Arc<Target>,
    /// The address of the server that is used; none for a Unix socket.
    peer: Option<IpAddr>,
    engine: Arc<dyn Engine>,
}

impl Store {
    /// Connects once to the first server that is a store.
    /// Fails if no server can be reached, accepts this host, and is a store.
    pub async fn connect(target: &Arc<Target>) -> Result<Self, Error> {
        let servers = &target.address.servers;
        let (engine, peer): (Arc<dyn Engine>, _) = match &target.address.kind {
            Kind::Redis(settings) => {
                let (redis, peer) = Redis::connect(target, settings, servers).await?;
                (Arc::new(redis), peer)
            }
            Kind::Sentinel(settings, name) => {
                let primary = sentinel::primary(target, settings, servers, name).await?;
                let (redis, peer) = Redis::connect(target, settings, &[primary]).await?;
                (Arc::new(redis), peer)
            }
            Kind::Postgres(config) => {
                let (postgres, peer) = Postgres::connect(target, config, servers).await?;
                (Arc::new(postgres), peer)
            }
        };
        Ok(Self {
            target: Arc::clone(target),
            peer: peer.map(|peer| peer.ip().to_canonical()),
            engine,
        })
    }

    /// The IP addresses of the store: of the server that is used, and of those that the URL names.
    pub async fn addresses(&self) -> Vec<IpAddr> {
        let mut addresses = self.target.addresses().await;
        addresses.extend(self.peer);
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// A line about settings of the server that endanger the fleet's data.
    pub fn warning(&self) -> Option<String> {
        self.engine.warning()
    }
}
