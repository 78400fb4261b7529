//! The connection to the server.

use std::{fmt, sync::Arc};

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
        let link = target.within_timeout(Link::new(target)).await?;
        let target = Arc::clone(target);
        let mut store = Self { target, link };
        let info: String = store.ask(redis::cmd("INFO").arg("server")).await?;
        check(&store.target, &info).map_err(|fault| store.target.error(fault))?;
        Ok(store)
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Error> {
        let answer = self.link.query(command);
        self.target.within_timeout(answer).await
    }

    /// Calls a script. Sends it first if the server does not have it yet.
    pub(super) async fn call<T: FromRedisValue>(
        &mut self,
        script: &str,
        keys: &[String],
        arguments: impl ToRedisArgs,
    ) -> Result<T, Error> {
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(keys.len()).arg(keys);
            command.arg(&arguments);
            command
        };
        let hash = redis::Script::new(script);
        match self.ask(&command("EVALSHA", hash.get_hash())).await {
            Err(Error::At(_, Fault::Refused(why))) if why.starts_with("NOSCRIPT") => {
                self.ask(&command("EVAL", script)).await
            }
            answer => answer,
        }
    }

    /// The error of an answer that is not valid.
    pub(super) fn invalid(&self, what: &str) -> Error {
        self.target.error(Fault::Invalid(what.to_owned()))
    }
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
