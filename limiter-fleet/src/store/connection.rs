//! The connection to the server.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use redis::{Cmd, FromRedisValue, ToRedisArgs};

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
    link: Link,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}

impl Store {
    /// Connects once, and checks that the server is a store.
    /// Fails if the server cannot be reached, refuses this host, or is not a store.
    pub async fn connect(target: &Arc<Target>) -> Result<Self, Error> {
        let both = target.options.connect_timeout + target.options.response_timeout;
        let connected = async {
            let link = Link::new(target).await;
            let link = link.map_err(|error| Fault::of(target, &error))?;
            let target = Arc::clone(target);
            let mut store = Self { target, link };
            let info: String = store.send(redis::cmd("INFO").arg("server")).await?;
            check(&store.target, &info)?;
            Ok(store)
        };
        let connected = within(both, connected).await;
        connected.map_err(|fault| target.error(fault))
    }

    async fn send<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Fault> {
        let answer = self.link.query(command).await;
        answer.map_err(|error| Fault::of(&self.target, &error))
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Error> {
        let timeout = self.target.options.response_timeout;
        let answer = within(timeout, self.send(command)).await;
        answer.map_err(|fault| self.target.error(fault))
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

/// Reads `INFO server`.
/// Fails if the server cannot be a store.
fn check(target: &Target, info: &str) -> Result<(), Fault> {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let not = |what: String| Err(Fault::NotAStore(what));
    let Some(version) = field("redis_version") else {
        return not("not a Redis".to_owned());
    };
    let major = version.split('.').next().and_then(|it| it.parse().ok());
    if major.is_none_or(|major: u32| major < OLDEST) {
        return not(format!("Redis {}", target.quoted(version)));
    }
    // Valkey uses another name.
    match field("redis_mode").or(field("server_mode")) {
        Some(mode @ ("sentinel" | "cluster")) => not(format!("a {mode}")),
        _ => Ok(()),
    }
}
