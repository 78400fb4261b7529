//! The errors of the store. No message contains the password.

use std::time::Duration;

/// An error of a request to the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not valid. It is not repeated, because it may contain a password.
    #[error(
        "the store's address is invalid ({0}): write redis://[USER[:PASSWORD]@]HOST[:PORT][,HOST...][/DATABASE], rediss:// with TLS, redis+sentinel://...HOST[,HOST...]/NAME[/DATABASE], unix:///PATH, or postgres://[USER[:PASSWORD]@]HOST[:PORT][,HOST...]/DATABASE[?sslmode=verify-full]; write [2001:db8::1] for an IPv6 address, and %XX for a special character of a password"
    )]
    Address(String),
    /// A certificate is not valid.
    #[error("{0}: check --ca, --cert and --key, which name files in PEM format")]
    Certificates(String),
    /// A name has characters that keys in the store cannot have.
    #[error("'{0}' is not a name: write 1 to 64 letters, digits, '-', '_' or '.'")]
    Name(String),
    /// A list is too long. Fields: the list's name, and the maximum number of prefixes.
    #[error(
        "the fleet's list '{0}' would have more than {1} prefixes: remove some, or write larger ones"
    )]
    ListFull(String, usize),
    /// The key of a list holds something else. Fields: the list's name, and the key.
    #[error("the fleet's list '{0}' is not a list in the store: delete the key {1} there")]
    NotAList(String, String),
    /// The store has lost the lists that this host knows.
    #[error(
        "the store has lost the fleet's lists, and the agents put them back: try again in some seconds"
    )]
    Lost,
    /// The store at this address cannot be reached, or refuses.
    #[error("the store at {0} {1}")]
    At(String, Fault),
    /// None of the servers of the store can be used. Has the error of each.
    #[error("{}", joined(.0))]
    Servers(Vec<Error>),
}

/// A fault of a store.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is no connection.
    #[error(
        "cannot be reached: {0}: check its address, that it runs, that a firewall lets this host through, and whether it speaks TLS (rediss://, sslmode=verify-full); with TLS, check --ca"
    )]
    Unreachable(String),
    /// The server has closed the connection, and said why.
    #[error(
        "has closed the connection: {0}: the agent connects again; read the log of the server, or of its pooler, if this goes on"
    )]
    Closed(String),
    /// There was no answer within this time.
    #[error(
        "has not answered within {0:?}: check its address, that it runs and is not overloaded, that a firewall lets this host through, and whether it speaks TLS (rediss://, sslmode=verify-full)"
    )]
    Timeout(Duration),
    /// The server rejects the user, the password or the host. Fields: its words, and what to do.
    #[error("rejects this user or host: {0}: {1}")]
    Denied(String, &'static str),
    /// TLS fails because of this host's certificate.
    #[error(
        "does not accept this host without a certificate that it trusts ({0}): give one by --cert and --key (sslcert and sslkey in a URL of PostgreSQL), or let Redis do without (tls-auth-clients no)"
    )]
    Certificate(String),
    /// The server has no room for another connection.
    #[error(
        "has too many connections: {0}: raise maxclients (Redis), max_connections (PostgreSQL) or the limit of its pooler"
    )]
    Crowded(String),
    /// The user lacks a right.
    #[error("denies this user a right that a fleet needs: {0}: grant the rights of docs/fleet.md")]
    Forbidden(String),
    /// The server is another program, or too old.
    #[error(
        "is {0}, but a fleet needs Redis 7.0, Valkey, or PostgreSQL 14 with the schema of `limiter agent schema`: name another store, or set it up as docs/fleet.md says"
    )]
    NotAStore(String),
    /// The store is out of memory or disk space.
    #[error(
        "is full: raise its maxmemory, or set maxmemory-policy to volatile-ttl; free disk space for PostgreSQL"
    )]
    Full,
    /// The server is a replica.
    #[error("is a replica, which accepts no writes: name its primary too, or wait for a failover")]
    Replica,
    /// The transactions of this user only read.
    #[error(
        "accepts no writes from this user: {0}: switch default_transaction_read_only off for the role and the database, or name the primary"
    )]
    ReadOnly(String),
    /// The answer is not valid for the request.
    #[error("sent an invalid answer ({0}): check what runs at this address")]
    Invalid(String),
    /// Any other error.
    #[error("refuses: {0}: wait, and read its log if this goes on")]
    Refused(String),
}

/// True if these are words of TLS about a certificate of this host: it is missing, or not trusted.
pub(super) fn is_of_certificate(why: &str) -> bool {
    const ALERTS: [&str; 5] = [
        "BadCertificate",
        "CertificateExpired",
        "CertificateRequired",
        "CertificateUnknown",
        "UnknownCA",
    ];
    let alert = why.split("received fatal alert: ").nth(1);
    alert.is_some_and(|alert| ALERTS.iter().any(|name| alert.starts_with(name)))
}

fn joined(errors: &[Error]) -> String {
    let errors = errors.iter().map(ToString::to_string);
    errors.collect::<Vec<_>>().join("; ")
}

impl Error {
    /// Returns true if the connection cannot be used any more.
    pub fn is_of_the_connection(&self) -> bool {
        use Fault::{Forbidden, Full, Refused};
        match self {
            Self::At(_, fault) => !matches!(fault, Forbidden(_) | Full | Refused(_)),
            Self::Servers(_) => true,
            _ => false,
        }
    }

    /// Returns true if the store may have done what it was asked, or may still do it.
    pub fn leaves_open(&self) -> bool {
        use Fault::{Closed, Timeout, Unreachable};
        matches!(self, Self::At(_, Closed(_) | Timeout(_) | Unreachable(_)))
    }

    /// The error as that of one server.
    pub(super) fn of_server(self, server: String) -> Self {
        match self {
            Self::At(_, fault) => Self::At(server, fault),
            error => error,
        }
    }
}
