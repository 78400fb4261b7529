//! The address of a store, by the scheme of its URL.

use std::path::Path;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use tokio_postgres::config::{Config, Host, SslMode};

use super::error::Error;

pub(super) enum Address {
    Redis(ConnectionInfo),
    Postgres(Config),
}

impl Address {
    /// Parses a URL. `password`: a password that is not part of the URL.
    pub fn read(url: &str, password: Option<&str>) -> Result<Self, Error> {
        if url.contains('#') {
            return Err(Error::Address("it contains '#'"));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            postgres(url, password)
        } else {
            redis(url, password)
        }
    }

    pub fn is_tls(&self) -> bool {
        match self {
            Self::Redis(info) => matches!(info.addr(), ConnectionAddr::TcpTls { .. }),
            Self::Postgres(config) => config.get_ssl_mode() == SslMode::Require,
        }
    }

    pub fn password(&self) -> Option<&str> {
        match self {
            Self::Redis(info) => info.redis_settings().password(),
            Self::Postgres(config) => str::from_utf8(config.get_password()?).ok(),
        }
    }

    /// The address as messages show it: without user, password and options.
    pub fn shown(&self) -> String {
        let (hosts, sockets) = self.places();
        let hosts = hosts.iter().map(|(host, port)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        });
        let sockets = sockets.iter().map(|path| path.display().to_string());
        hosts.chain(sockets).collect::<Vec<_>>().join(",")
    }

    /// The hosts with their ports, and the sockets.
    pub fn places(&self) -> (Vec<(&str, u16)>, Vec<&Path>) {
        let (mut hosts, mut sockets) = (Vec::new(), Vec::new());
        match self {
            Self::Redis(info) => match info.addr() {
                ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                    hosts.push((&**host, *port));
                }
                ConnectionAddr::Unix(path) => sockets.push(&**path),
                _ => {}
            },
            Self::Postgres(config) => servers(config).for_each(|(host, port)| match host {
                Host::Tcp(host) => hosts.push((host, port)),
                Host::Unix(path) => sockets.push(path),
            }),
        }
        (hosts, sockets)
    }
}

/// The servers of a fleet's database: of several, one is the primary.
pub(super) fn servers(config: &Config) -> impl Iterator<Item = (&Host, u16)> {
    const PORT: u16 = 5432;
    let ports = config.get_ports();
    let port = move |index: usize| *ports.get(index).or(ports.first()).unwrap_or(&PORT);
    let hosts = config.get_hosts().iter().enumerate();
    hosts.map(move |(index, host)| (host, port(index)))
}

fn redis(url: &str, password: Option<&str>) -> Result<Address, Error> {
    let info = url.into_connection_info();
    let info = info.map_err(|_| Error::Address("it is not a URL of a store"))?;
    let mut settings = info
        .redis_settings()
        .clone()
        .set_protocol(ProtocolVersion::RESP2)
        .set_skip_set_lib_name();
    if let Some(password) = password {
        settings = settings.set_password(password);
    }
    Ok(Address::Redis(info.set_redis_settings(settings)))
}

fn postgres(url: &str, password: Option<&str>) -> Result<Address, Error> {
    if url.contains("sslmode=prefer") {
        return Err(Error::Address("sslmode=prefer may do without TLS"));
    }
    // The client has one mode with TLS. Here, it always verifies the certificate and the name.
    let url = url.replace("sslmode=verify-full", "sslmode=require");
    let config: Result<Config, _> = url.parse();
    let mut config = config.map_err(|_| Error::Address("it is not a URL of a store"))?;
    if config.get_hosts().is_empty() || !config.get_hostaddrs().is_empty() {
        return Err(Error::Address("it has no host"));
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
    Ok(Address::Postgres(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_postgresql_is_shown_without_user_and_password() {
        for (url, shown, is_tls) in [
            ("postgres://me:geheim@host/edge", "host:5432", false),
            (
                "postgresql://me@[2001:db8::1]:7000/edge",
                "[2001:db8::1]:7000",
                false,
            ),
            (
                "postgres://a,b:7/edge?sslmode=verify-full",
                "a:5432,b:7",
                true,
            ),
            ("postgres://a/edge?sslmode=require", "a:5432", true),
            (
                "postgres:///edge?host=/run/postgresql",
                "/run/postgresql",
                false,
            ),
        ] {
            let address = Address::read(url, None).unwrap();
            assert_eq!(
                (&*address.shown(), address.is_tls()),
                (shown, is_tls),
                "{url}"
            );
        }
        for bad in [
            "postgres://me:geheim@host:x/edge",
            "postgres://me:geheim@host/edge?sslmode=prefer",
            "postgres://me:geheim@host/edge?sslmode=allow",
            "postgres:///edge",
        ] {
            let error = Address::read(bad, None).err().unwrap();
            assert!(matches!(error, Error::Address(_)), "{bad}: {error}");
            assert!(!format!("{error} {error:?}").contains("geheim"));
        }
    }
}
