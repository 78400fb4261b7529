//! The connection to a server or a cluster.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use redis::{
    Cmd, FromRedisValue, ToRedisArgs, cluster::ClusterClient, cluster_async::ClusterConnection,
};

use super::{
    error::{Error, Fault},
    link::Link,
    options::Target,
};

/// The oldest major version with the needed script functions.
const OLDEST: u32 = 7;

/// A connection to the store. Clones share the connection and can be used at the same time.
#[derive(Clone)]
pub struct Store {
    pub(super) target: Arc<Target>,
    connection: Connection,
}

#[derive(Clone)]
enum Connection {
    One(Link),
    Cluster(ClusterConnection<Link>),
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}

impl Store {
    /// Connects once. Checks that the server is a store, and whether it is a cluster.
    /// Fails if the server cannot be reached, refuses this host, or is not a store.
    pub async fn connect(target: &Arc<Target>) -> Result<Self, Error> {
        let both = target.options.connect_timeout + target.options.response_timeout;
        let connection = within(both, Connection::new(target)).await;
        Ok(Self {
            connection: connection.map_err(|fault| target.error(fault))?,
            target: Arc::clone(target),
        })
    }

    /// Returns true if the store is a cluster. Then each round must be about one shard.
    pub fn is_cluster(&self) -> bool {
        matches!(self.connection, Connection::Cluster(_))
    }

    pub(super) async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Error> {
        let Self { target, connection } = self;
        let asked = async {
            match connection {
                Connection::One(one) => command.query_async(one).await,
                Connection::Cluster(cluster) => command.query_async(cluster).await,
            }
            .map_err(|error| Fault::of(target, &error))
        };
        // The client's own timeout is per attempt.
        let answer = within(2 * target.options.response_timeout, asked).await;
        answer.map_err(|fault| target.error(fault))
    }

    /// Calls a script. Sends it first if the server does not have it yet.
    pub(super) async fn call<T: FromRedisValue>(
        &mut self,
        script: &LuaScript,
        keys: &[String],
        arguments: impl ToRedisArgs,
    ) -> Result<T, Error> {
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(keys.len()).arg(keys);
            command.arg(&arguments);
            command
        };
        let hash = || redis::Script::new(script.source).get_hash().to_owned();
        let known = command("EVALSHA", script.hash.get_or_init(hash));
        match self.ask(&known).await {
            Err(Error::At(_, Fault::Refused(why))) if why.starts_with("NOSCRIPT") => {
                self.ask(&command("EVAL", script.source)).await
            }
            answer => answer,
        }
    }

    /// The error of an answer that is not valid.
    pub(super) fn invalid(&self, what: &str) -> Error {
        self.target.error(Fault::Invalid(what.to_owned()))
    }
}

impl Connection {
    /// Connects, and identifies the server.
    async fn new(target: &Arc<Target>) -> Result<Self, Fault> {
        let failed = |error| Fault::of(target, &error);
        let mut one = Link::new(target).await.map_err(failed)?;
        let mut info = redis::cmd("INFO");
        let info = info.arg("server").query_async::<String>(&mut one).await;
        if !is_cluster(target, &info.map_err(failed)?)? {
            return Ok(Self::One(one));
        }
        Link::nodes_as(Arc::clone(target));
        let cluster = ClusterClient::builder([target.info.clone()])
            .connection_timeout(target.options.connect_timeout)
            .response_timeout(target.options.response_timeout)
            // Retries find a slot that has moved. The caller waits for a node that is gone.
            .retries(2)
            .max_retry_wait(100);
        let cluster = cluster.build().map_err(failed)?;
        let cluster = cluster.get_async_generic_connection().await;
        Ok(Self::Cluster(cluster.map_err(failed)?))
    }
}

/// A script, and the name under which a server has it after it was sent.
pub(super) struct LuaScript {
    source: &'static str,
    hash: OnceLock<String>,
}

impl LuaScript {
    pub(super) const fn new(source: &'static str) -> Self {
        let hash = OnceLock::new();
        Self { source, hash }
    }
}

async fn within<T>(
    time: Duration,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let done = tokio::time::timeout(time, work).await;
    done.unwrap_or(Err(Fault::Timeout(time)))
}

/// Reads `INFO server`: whether the server is part of a cluster.
fn is_cluster(target: &Target, info: &str) -> Result<bool, Fault> {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let not = |what: &str| Fault::NotAStore(what.to_owned());
    let version = field("redis_version").ok_or_else(|| not("not a Redis"))?;
    let major = version.split('.').next().and_then(|it| it.parse().ok());
    if major.is_none_or(|major: u32| major < OLDEST) {
        return Err(not(&format!("Redis {}", target.quoted(version))));
    }
    // Valkey uses another name.
    match field("redis_mode").or(field("server_mode")) {
        Some("sentinel") => Err(not("a Sentinel")),
        mode => Ok(mode == Some("cluster")),
    }
}
