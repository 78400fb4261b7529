//! The address of a store, by its URL.

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
};
use tokio_postgres::config::{Config, Host, SslMode};

use super::error::Error;

/// The address of a store.
pub(super) struct Address {
    pub kind: Kind,
    /// The servers. One of them is the primary, or knows it.
    pub servers: Vec<Place>,
    pub is_tls: bool,
}

pub(super) enum Kind {
    Redis(RedisConnectionInfo),
    /// Sentinels, which know the address of the primary with this name.
    Sentinel(RedisConnectionInfo, String),
    Postgres(Box<Config>),
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Place {
    pub fn shown(&self) -> String {
        match self {
            Self::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp(host, port) => format!("{host}:{port}"),
            Self::Unix(path) => path.display().to_string(),
        }
    }
}

impl Address {
    /// Parses a URL. `password`: a password that is not part of the URL.
    pub fn read(url: &str, password: Option<&str>) -> Result<Self, Error> {
        if url.contains('#') {
            return Err(invalid("it contains '#'"));
        }
        let address = if is_postgres(url) {
            postgres(url, password)?
        } else {
            redis(url, password)?
        };
        let is_socket = |place: &Place| matches!(place, Place::Unix(_));
        if address.is_tls && address.servers.iter().any(is_socket) {
            return Err(invalid("a Unix socket has no TLS: leave sslmode out"));
        }
        Ok(address)
    }

    pub fn password(&self) -> Option<&str> {
        match &self.kind {
            Kind::Redis(settings) | Kind::Sentinel(settings, _) => settings.password(),
            Kind::Postgres(config) => str::from_utf8(config.get_password()?).ok(),
        }
    }

    /// The address as messages show it: without user, password and options.
    pub fn shown(&self) -> String {
        let servers = self.servers.iter().map(Place::shown);
        servers.collect::<Vec<_>>().join(",")
    }
}

/// The files of the client's certificate and its key that a URL of PostgreSQL names (`sslcert`, `sslkey`).
pub fn client_files(url: &str) -> [Option<PathBuf>; 2] {
    ["sslcert", "sslkey"].map(|wanted| {
        let mut options = options(url).filter(|_| is_postgres(url));
        let (_, value) = options.find(|(name, _)| *name == wanted)?;
        let value = percent_decode_str(value).decode_utf8().ok()?;
        Some(PathBuf::from(&*value))
    })
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

fn invalid(why: impl Into<String>) -> Error {
    Error::Address(why.into())
}

/// The options of a URL: the part behind `?`.
fn options(url: &str) -> impl Iterator<Item = (&str, &str)> {
    let (_, query) = url.split_once('?').unwrap_or_default();
    let options = query.split('&').filter(|option| !option.is_empty());
    options.map(|option| option.split_once('=').unwrap_or((option, "")))
}

/// The error about an option. A password with `?` could look like one, and must not be shown.
fn bad_option(url: &str, name: &str, why: &str) -> Error {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    match url
        .rsplit_once('@')
        .is_some_and(|(before, _)| before.contains('?'))
    {
        false if name.chars().all(is_name) => invalid(format!("its option '{name}' {why}")),
        _ => invalid("it is not a URL of a store"),
    }
}

fn redis(url: &str, password: Option<&str>) -> Result<Address, Error> {
    const SENTINEL: &str = "+sentinel";
    let not = || invalid("it is not a URL of a store");
    let (scheme, rest) = url.split_once("://").ok_or_else(not)?;
    let is_socket = scheme.ends_with("unix");
    let known = match is_socket {
        true => &["db", "user", "pass"][..],
        false => &[],
    };
    if let Some((name, _)) = options(url).find(|(name, _)| !known.contains(name)) {
        return Err(bad_option(url, name, "is unknown"));
    }
    let parse = |url: &str| url.into_connection_info().map_err(|_| not());
    if is_socket {
        let info = parse(url)?;
        let ConnectionAddr::Unix(path) = info.addr() else {
            return Err(not());
        };
        let servers = vec![Place::Unix(path.clone())];
        return Ok(of_redis(
            Kind::Redis(settings(&info, password)),
            servers,
            false,
        ));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let (scheme, is_sentinel) = match scheme.strip_suffix(SENTINEL) {
        Some(scheme) => (scheme, true),
        None => (scheme, false),
    };
    let (name, database) = match (is_sentinel, path.split_once('/')) {
        (false, _) => ("", path),
        (true, Some((name, database))) => (name, database),
        (true, None) => (path, ""),
    };
    if is_sentinel && name.is_empty() {
        return Err(invalid(
            "it does not name the primary: redis+sentinel://HOST,HOST/NAME",
        ));
    }
    let (mut servers, mut first) = (Vec::new(), None);
    for host in hosts.split(',') {
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let port = if is_sentinel && !has_port {
            ":26379"
        } else {
            ""
        };
        let info = parse(&format!("{scheme}://{user}{host}{port}/{database}"))?;
        match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                servers.push(Place::Tcp(host.clone(), *port));
            }
            _ => return Err(not()),
        }
        first.get_or_insert(info);
    }
    let info = first.ok_or_else(not)?;
    let is_tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
    let settings = settings(&info, password);
    let kind = match is_sentinel {
        true => Kind::Sentinel(settings, name.to_owned()),
        false => Kind::Redis(settings),
    };
    Ok(of_redis(kind, servers, is_tls))
}

fn of_redis(kind: Kind, servers: Vec<Place>, is_tls: bool) -> Address {
    Address {
        kind,
        servers,
        is_tls,
    }
}

fn settings(info: &ConnectionInfo, password: Option<&str>) -> RedisConnectionInfo {
    let settings = info.redis_settings().clone();
    let settings = settings
        .set_protocol(ProtocolVersion::RESP2)
        .set_skip_set_lib_name();
    match password {
        Some(password) => settings.set_password(password),
        None => settings,
    }
}

/// Options of PostgreSQL's client that agents know. Others have no effect on them.
const KNOWN: [&str; 11] = [
    "application_name",
    "channel_binding",
    "dbname",
    "host",
    "options",
    "password",
    "port",
    "sslmode",
    "sslnegotiation",
    "user",
    "target_session_attrs",
];

fn postgres(url: &str, password: Option<&str>) -> Result<Address, Error> {
    let (begin, _) = url.split_once('?').unwrap_or((url, ""));
    let mut kept = Vec::new();
    for (name, value) in options(url) {
        let value = match (name, value) {
            // Read by the caller.
            ("sslcert" | "sslkey", _) => continue,
            // Agents use a primary anyway.
            ("target_session_attrs", "read-write" | "primary") => continue,
            ("target_session_attrs", _) => {
                return Err(bad_option(url, name, "can only be read-write"));
            }
            // The client has one mode with TLS. Here, it always verifies the certificate and the name.
            ("sslmode", "verify-full" | "require") => "require",
            ("sslmode", "disable") => value,
            ("sslmode", _) => {
                return Err(bad_option(
                    url,
                    name,
                    "can only be verify-full, require or disable: other modes may do without TLS, or without a check",
                ));
            }
            ("sslrootcert", _) => return Err(bad_option(url, name, "is --ca for agents")),
            _ if KNOWN.contains(&name) => value,
            _ => {
                return Err(bad_option(
                    url,
                    name,
                    "is unknown, or has no effect on agents",
                ));
            }
        };
        kept.push(format!("{name}={value}"));
    }
    let config: Result<Config, _> = format!("{begin}?{}", kept.join("&")).parse();
    let mut config = config.map_err(|_| invalid("it is not a URL of a store"))?;
    if config.get_hosts().is_empty() {
        return Err(invalid("it has no host"));
    }
    if config.get_ssl_mode() == SslMode::Prefer {
        config.ssl_mode(SslMode::Disable);
    }
    if config.get_application_name().is_none() {
        config.application_name("limiter agent");
    }
    if let Some(password) = password {
        config.password(password);
    }
    Ok(Address {
        servers: servers(&config),
        is_tls: config.get_ssl_mode() == SslMode::Require,
        kind: Kind::Postgres(Box::new(config)),
    })
}

fn servers(config: &Config) -> Vec<Place> {
    const PORT: u16 = 5432;
    let ports = config.get_ports();
    let port = |index: usize| *ports.get(index).or(ports.first()).unwrap_or(&PORT);
    let place = |(index, host): (usize, &Host)| match host {
        Host::Tcp(name) => Place::Tcp(name.clone(), port(index)),
        Host::Unix(folder) => Place::Unix(socket(folder, port(index))),
    };
    config.get_hosts().iter().enumerate().map(place).collect()
}

/// The socket of a server in its folder.
fn socket(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_shown_without_user_and_password() {
        for (url, shown, is_tls) in [
            ("postgres://me:geheim@host/edge", "host:5432", false),
            (
                "postgresql://me@[2001:db8::1]:7000/edge",
                "[2001:db8::1]:7000",
                false,
            ),
            (
                "postgres://a,b:7/edge?sslmode=verify-full&target_session_attrs=read-write",
                "a:5432,b:7",
                true,
            ),
            (
                "postgres://a/edge?sslmode=require&sslcert=/c.pem&sslkey=/k.pem",
                "a:5432",
                true,
            ),
            (
                "postgres:///edge?host=/run/postgresql",
                "/run/postgresql/.s.PGSQL.5432",
                false,
            ),
            ("redis://me:geheim@a,b:7/2", "a:6379,b:7", false),
            (
                "rediss://[2001:db8::1],c",
                "[2001:db8::1]:6379,c:6379",
                true,
            ),
            ("unix:///run/redis.sock?db=1", "/run/redis.sock", false),
            (
                "rediss+sentinel://me:geheim@a,[2001:db8::1],b:7/main/1",
                "a:26379,[2001:db8::1]:26379,b:7",
                true,
            ),
        ] {
            let address = Address::read(url, None).unwrap();
            assert_eq!(
                (&*address.shown(), address.is_tls),
                (shown, is_tls),
                "{url}"
            );
        }
    }

    /// The options of PostgreSQL's client without effect, and others' too.
    #[test]
    fn invalid_address_names_the_mistake_without_the_password() {
        for (bad, words) in [
            ("postgres://me:geheim@host:x/edge", "not a URL"),
            ("postgres://me:geheim@host/edge?sslmode=prefer", "'sslmode'"),
            ("postgres://me:geheim@host/edge?sslmode=allow", "'sslmode'"),
            (
                "postgres://me:geheim@host/edge?hostaddr=192.0.2.1",
                "'hostaddr'",
            ),
            (
                "postgres://host/edge?user=me&connect_timeout=3",
                "'connect_timeout'",
            ),
            (
                "postgres://host/edge?target_session_attrs=read-only",
                "'target_session_attrs' can only be read-write",
            ),
            ("postgres://host/edge?sslrootcert=/ca.pem", "--ca"),
            ("postgres://host/edge?colour=red", "'colour' is unknown"),
            ("postgres://me:x?geheim@host/edge", "not a URL"),
            ("postgres:///edge", "no host"),
            (
                "postgres:///edge?host=/run&sslmode=verify-full",
                "has no TLS",
            ),
            ("redis://me:geheim@host?timeout=3", "'timeout' is unknown"),
            ("redis://me:x?geheim@host", "not a URL"),
            ("redis://a,b:x", "not a URL"),
            ("redis+sentinel://a,b", "does not name the primary"),
        ] {
            let error = Address::read(bad, None).err().unwrap();
            assert!(matches!(error, Error::Address(_)), "{bad}: {error}");
            let text = format!("{error} {error:?}");
            assert!(
                text.contains(words) && !text.contains("geheim"),
                "{bad}: {text}"
            );
        }
    }

    #[test]
    fn certificate_is_named_by_the_address() {
        let url = "postgres://a/edge?sslcert=/etc/x%20y.pem&sslmode=require&sslkey=/k";
        let files = ["/etc/x y.pem", "/k"].map(|path| Some(PathBuf::from(path)));
        assert_eq!(client_files(url), files);
        assert_eq!(client_files("rediss://a?sslcert=/x"), [None, None]);
    }
}
