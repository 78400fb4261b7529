//! The connection to a store of any kind.

use std::sync::Arc;

use super::{
    address::Address, engine::Engine, error::Error, options::Target, postgres::Postgres,
    redis::Redis,
};

/// A connection to the store. Clones share the connection and can be used at the same time.
#[derive(Clone)]
pub struct Store {
    pub(super) target: Arc<Target>,
    pub(super) engine: Arc<dyn Engine>,
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
}
