//! The connection: one server, or a cluster, and what its errors mean.

use std::{
    error::Error as _,
    sync::{Arc, LazyLock},
    time::Duration,
};

use redis::{
    Cmd, ErrorKind, FromRedisValue, RedisError, Script, ServerErrorKind, ToRedisArgs,
    cluster::ClusterClient, cluster_async::ClusterConnection,
};

use super::{
    error::Error,
    link::{Link, Way},
    options::Target,
    reply::Refused,
};

/// The first version whose scripts do what these do.
const OLDEST: u32 = 7;
/// What is said of what a user may not do: by scripts of Redis and of Valkey, and by the client of a database that it may
/// not choose.
const FORBIDDEN: [&str; 3] = [
    "The user executing the script",
    "ACL failure in script",
    "no permissions to run",
];
/// Longest text of a server in a message.
const SAID: usize = 200;

#[derive(Clone)]
pub(super) enum Connection {
    One(Link),
    Cluster(ClusterConnection<Link>),
}

impl Connection {
    /// Connects, and finds out what is there.
    pub(super) async fn new(target: &Target) -> Result<Self, Error> {
        let both = target.connect_timeout + target.response_timeout;
        within(target, both, Self::try_new(target)).await
    }

    async fn try_new(target: &Target) -> Result<Self, Error> {
        let failed = |error| said(target, &error);
        let way = Way {
            tls: target.tls()?,
            connect_timeout: target.connect_timeout,
            response_timeout: target.response_timeout,
        };
        let mut one = Link::new(&target.info, &way).await.map_err(failed)?;
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query_async(&mut one)
            .await
            .map_err(failed)?;
        if !is_cluster(target, &info)? {
            return Ok(Self::One(one));
        }
        Link::nodes_by(way);
        let cluster = ClusterClient::builder([target.info.clone()])
            .connection_timeout(target.connect_timeout)
            .response_timeout(target.response_timeout)
            // One moved slot is found again; a node that is gone is the caller's to wait for.
            .retries(2)
            .max_retry_wait(100);
        let cluster = cluster.build().map_err(failed)?;
        let cluster = cluster.get_async_generic_connection().await;
        Ok(Self::Cluster(cluster.map_err(failed)?))
    }

    /// Asks once.
    pub(super) async fn ask<T: FromRedisValue>(
        &mut self,
        target: &Target,
        command: &Cmd,
    ) -> Result<T, Error> {
        let asked = async {
            match self {
                Self::One(one) => command.query_async(one).await,
                Self::Cluster(cluster) => command.query_async(cluster).await,
            }
            .map_err(|error| said(target, &error))
        };
        // The client's own limit is per attempt.
        within(target, 2 * target.response_timeout, asked).await
    }
}

/// A script, and what it is called with.
pub(super) struct Call<'a, A = String> {
    pub script: &'static LazyLock<Script>,
    pub source: &'static str,
    pub keys: &'a [String],
    pub arguments: &'a [A],
}

impl<A: ToRedisArgs> Call<'_, A> {
    /// Calls it. A server that has not seen it yet is sent it.
    pub(super) async fn on<T: FromRedisValue>(
        &self,
        connection: &mut Connection,
        target: &Target,
    ) -> Result<T, Error> {
        let known = self.command("EVALSHA", self.script.get_hash());
        match connection.ask(target, &known).await {
            Err(Error::Refused { why, .. }) if why.starts_with("NOSCRIPT") => {
                let whole = self.command("EVAL", self.source);
                connection.ask(target, &whole).await
            }
            answer => answer,
        }
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command
            .arg(script)
            .arg(self.keys.len())
            .arg(self.keys)
            .arg(self.arguments);
        command
    }
}

async fn within<T>(
    target: &Target,
    time: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(time, work)
        .await
        .unwrap_or_else(|_| Err(timeout(target, time)))
}

fn timeout(target: &Target, after: Duration) -> Error {
    let advice = if target.certificates.is_some() {
        "that the address is right, that it runs and has time, that a firewall lets this host through, and that the port speaks TLS"
    } else {
        "that the address is right, that it runs and has time, and that a firewall lets this host through"
    };
    Error::Timeout {
        at: target.at().to_owned(),
        after,
        advice,
    }
}

/// What may be in the way, as far as the system's words tell.
fn unreachable(target: &Target, why: String) -> Error {
    let advice = if why.contains("lookup address") {
        "that its name is right, and that this host can look it up"
    } else if target.is_socket() {
        "that it runs, and that this user may open its socket"
    } else if why.contains("reset by peer") && target.certificates.is_none() {
        "that it runs, that a firewall lets this host through, and whether it speaks TLS (rediss://)"
    } else {
        "that it runs, and that a firewall lets this host through"
    };
    Error::Unreachable {
        at: target.at().to_owned(),
        why,
        advice,
    }
}

/// The cryptography of all TLS of this process, once.
pub(super) fn use_ring() {
    // An error says that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// What `INFO server` says.
fn is_cluster(target: &Target, info: &str) -> Result<bool, Error> {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let not = |what: String| Error::NotAStore {
        at: target.at().to_owned(),
        what,
    };
    let Some(version) = field("redis_version") else {
        return Err(not("no Redis".to_owned()));
    };
    let major = version.split('.').next().and_then(|it| it.parse().ok());
    if major.is_none_or(|major: u32| major < OLDEST) {
        return Err(not(format!("Redis {}", quoted(target, version))));
    }
    // Valkey says it by another name.
    match field("redis_mode").or(field("server_mode")) {
        Some("sentinel") => Err(not("a Sentinel".to_owned())),
        mode => Ok(mode == Some("cluster")),
    }
}

/// What a server or the system has said, fit for a line of ours.
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

/// What an error of the client means.
fn said(target: &Target, error: &RedisError) -> Error {
    let at = target.at().to_owned();
    let why = match error.code() {
        Some(code) => format!("{code} {}", error.detail().unwrap_or_default()),
        None => error.to_string(),
    };
    let why = quoted(target, &why);
    if error.is_timeout() {
        return timeout(target, target.response_timeout);
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => Error::Denied { at },
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Error::Garbled { at, what: why },
        ErrorKind::Server(ServerErrorKind::NoPerm) => Error::Forbidden { at, why },
        ErrorKind::Server(ServerErrorKind::ReadOnly) => Error::Replica { at },
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::TryAgain
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask,
        ) => Error::NotReady { at, why },
        ErrorKind::Io if is_of::<Refused>(error) => Error::Garbled { at, what: why },
        ErrorKind::Io if is_of::<rustls::Error>(error) => Error::Tls { at, why },
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => unreachable(target, why),
        _ => match error.code() {
            // DENIED: protected mode.
            Some("NOAUTH" | "WRONGPASS" | "DENIED") => Error::Denied { at },
            Some("OOM") => Error::Full { at },
            Some("BUSY" | "NOREPLICAS" | "MISCONF") => Error::NotReady { at, why },
            // What a script may not do comes as an error of the script.
            _ if FORBIDDEN.iter().any(|words| why.contains(words)) => Error::Forbidden { at, why },
            _ if why.contains("ERR unknown command") => Error::NotAStore {
                at,
                what: "no Redis, or has commands forbidden".to_owned(),
            },
            _ => Error::Refused { at, why },
        },
    }
}

/// Whether an error of the system's is one of these.
fn is_of<E: std::error::Error + 'static>(error: &RedisError) -> bool {
    // The client keeps what it got in one of these, which hides what it is.
    type Kept = Arc<dyn std::error::Error + Send + Sync>;
    let kept = error
        .source()
        .and_then(|source| source.downcast_ref::<Kept>());
    let io = kept.and_then(|kept| kept.downcast_ref::<std::io::Error>());
    let inner = io.and_then(std::io::Error::get_ref);
    inner.is_some_and(|inner| inner.is::<E>())
}
