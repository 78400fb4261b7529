//! The errors of the store. No message contains the password.

use std::time::Duration;

/// An error of a request to the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not valid. It is not repeated, because it may contain a password.
    #[error(
        "the store's address is invalid ({0}): write redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE], rediss:// with TLS, unix:///PATH, or postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?sslmode=verify-full]; write [2001:db8::1] for an IPv6 address, and %XX for a special character of a password"
    )]
    Address(&'static str),
    /// A certificate is not valid.
    #[error("{0}: check --ca, which names a file in PEM format")]
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
    /// User or password is wrong, or the store accepts no other hosts. The client cannot tell these apart.
    #[error(
        "rejects the user or the password: check --password-file, and on the store `ACL LIST` or pg_hba.conf; without a password of its own (requirepass), Redis rejects all other hosts"
    )]
    Denied,
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
    #[error("is a replica, which accepts no writes: name its primary")]
    Replica,
    /// The answer is not valid for the request.
    #[error("sent an invalid answer ({0}): check what runs at this address")]
    Invalid(String),
    /// Any other error.
    #[error("refuses: {0}: wait, and read its log if this goes on")]
    Refused(String),
}

impl Error {
    /// Returns true if the connection cannot be used any more.
    pub fn is_of_the_connection(&self) -> bool {
        use Fault::{Forbidden, Full, Refused};
        matches!(self, Self::At(_, fault) if !matches!(fault, Forbidden(_) | Full | Refused(_)))
    }
}
