//! The connection to a server or a cluster, and the meaning of its errors.

use std::{
    error::Error as _,
    sync::{Arc, OnceLock},
    time::Duration,
};

use redis::{
    Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, ToRedisArgs,
    cluster::ClusterClient, cluster_async::ClusterConnection,
};

use super::{error::Fault, link::Link, options::Target, reply::Refused};

/// The oldest major version with the needed script functions.
const OLDEST: u32 = 7;
/// Texts of errors about missing rights: from scripts of Redis and Valkey, and from the client about a forbidden
/// database.
const FORBIDDEN: [&str; 3] = [
    "The user executing the script",
    "ACL failure in script",
    "no permissions to run",
];
/// Maximum length of a server's text in a message.
const SAID: usize = 200;

#[derive(Clone)]
pub(super) enum Connection {
    One(Link),
    Cluster(ClusterConnection<Link>),
}

impl Connection {
    /// Connects, and identifies the server.
    pub(super) async fn new(target: &Arc<Target>) -> Result<Self, Fault> {
        let both = target.options.connect_timeout + target.options.response_timeout;
        within(target, both, Self::try_new(target)).await
    }

    async fn try_new(target: &Arc<Target>) -> Result<Self, Fault> {
        let failed = |error| said(target, &error);
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

    /// Sends one request.
    pub(super) async fn ask<T: FromRedisValue>(
        &mut self,
        target: &Target,
        command: &Cmd,
    ) -> Result<T, Fault> {
        let asked = async {
            match self {
                Self::One(one) => command.query_async(one).await,
                Self::Cluster(cluster) => command.query_async(cluster).await,
            }
            .map_err(|error| said(target, &error))
        };
        // The client's own timeout is per attempt.
        within(target, 2 * target.options.response_timeout, asked).await
    }

    /// Calls a script. Sends it first if the server does not have it yet.
    pub(super) async fn call<T: FromRedisValue>(
        &mut self,
        target: &Target,
        script: &LuaScript,
        keys: &[String],
        arguments: &[impl ToRedisArgs],
    ) -> Result<T, Fault> {
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
            command
        };
        let hash = || redis::Script::new(script.source).get_hash().to_owned();
        let known = command("EVALSHA", script.hash.get_or_init(hash));
        match self.ask(target, &known).await {
            Err(Fault::Refused(why)) if why.starts_with("NOSCRIPT") => {
                self.ask(target, &command("EVAL", script.source)).await
            }
            answer => answer,
        }
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
    target: &Target,
    time: Duration,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let done = tokio::time::timeout(time, work).await;
    done.unwrap_or_else(|_| Err(timeout(target, time)))
}

fn timeout(target: &Target, after: Duration) -> Fault {
    let advice = if target.is_tls() {
        "that the address is right, that it runs and has time, that a firewall lets this host through, and that the port speaks TLS"
    } else {
        "that the address is right, that it runs and has time, and that a firewall lets this host through"
    };
    Fault::Timeout(after, advice)
}

/// The error for an unreachable server. The advice depends on the system's message.
fn unreachable(target: &Target, why: String) -> Fault {
    let advice = if why.contains("lookup address") {
        "that its name is right, and that this host can look it up"
    } else if target.is_socket() {
        "that it runs, and that this user may open its socket"
    } else if why.contains("reset by peer") && !target.is_tls() {
        "that it runs, that a firewall lets this host through, and whether it speaks TLS (rediss://)"
    } else {
        "that it runs, and that a firewall lets this host through"
    };
    Fault::Unreachable(why, advice)
}

/// Reads `INFO server`: whether the server is part of a cluster.
fn is_cluster(target: &Target, info: &str) -> Result<bool, Fault> {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let not = |what: &str| Fault::NotAStore(what.to_owned());
    let version = field("redis_version").ok_or_else(|| not("no Redis"))?;
    let major = version.split('.').next().and_then(|it| it.parse().ok());
    if major.is_none_or(|major: u32| major < OLDEST) {
        return Err(not(&format!("Redis {}", quoted(target, version))));
    }
    // Valkey uses another name.
    match field("redis_mode").or(field("server_mode")) {
        Some("sentinel") => Err(not("a Sentinel")),
        mode => Ok(mode == Some("cluster")),
    }
}

/// Makes a text of the server or the system fit for a message.
fn quoted(target: &Target, text: &str) -> String {
    let text = target.without_password(text);
    let mut fit = String::new();
    for c in text.chars().take(SAID) {
        match c {
            '\'' | '"' => fit.push(c),
            _ => fit.extend(c.escape_debug()),
        }
    }
    fit
}

/// Converts an error of the client.
fn said(target: &Target, error: &RedisError) -> Fault {
    use ServerErrorKind::{
        Ask, BusyLoading, ClusterDown, MasterDown, Moved, NoPerm, ReadOnly, TryAgain,
    };
    if error.is_timeout() {
        return timeout(target, target.options.response_timeout);
    }
    let why = match error.code() {
        Some(code) => format!("{code} {}", error.detail().unwrap_or_default()),
        None => error.to_string(),
    };
    let why = quoted(target, &why);
    match error.kind() {
        ErrorKind::AuthenticationFailed => Fault::Denied,
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Fault::Garbled(why),
        ErrorKind::Server(NoPerm) => Fault::Forbidden(why),
        ErrorKind::Server(ReadOnly) => Fault::Replica,
        ErrorKind::Server(BusyLoading | ClusterDown | MasterDown | TryAgain | Moved | Ask) => {
            Fault::NotReady(why)
        }
        ErrorKind::Io if is_of::<Refused>(error) => Fault::Garbled(why),
        ErrorKind::Io if is_of::<rustls::Error>(error) => Fault::Tls(why),
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => unreachable(target, why),
        _ => match error.code() {
            // DENIED: the server is in protected mode.
            Some("NOAUTH" | "WRONGPASS" | "DENIED") => Fault::Denied,
            Some("OOM") => Fault::Full,
            Some("BUSY" | "NOREPLICAS" | "MISCONF") => Fault::NotReady(why),
            // A script's missing rights are reported as a script error.
            _ if FORBIDDEN.iter().any(|words| why.contains(words)) => Fault::Forbidden(why),
            _ if why.contains("ERR unknown command") => {
                Fault::NotAStore("no Redis, or has commands forbidden".to_owned())
            }
            _ => Fault::Refused(why),
        },
    }
}

/// Whether the cause is a system error of this type.
fn is_of<E: std::error::Error + 'static>(error: &RedisError) -> bool {
    // The client wraps its errors in this type, which hides the cause.
    type Kept = Arc<dyn std::error::Error + Send + Sync>;
    let kept = error
        .source()
        .and_then(|source| source.downcast_ref::<Kept>());
    let io = kept.and_then(|kept| kept.downcast_ref::<std::io::Error>());
    let inner = io.and_then(std::io::Error::get_ref);
    inner.is_some_and(|inner| inner.is::<E>())
}
