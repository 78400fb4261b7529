//! The errors of the store. No message contains the password.

use std::time::Duration;

/// An error of a request to the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not valid.
    #[error(
        "the store's address is of no use: {0}: write redis://HOST[:PORT] or rediss://[USER[:PASSWORD]@]HOST[:PORT][/DB], or unix:///PATH"
    )]
    Address(String),
    /// A certificate or key is not valid.
    #[error(
        "the certificates for the store are of no use: {0}: see --ca, --cert and --key, which name files in PEM format"
    )]
    Certificates(String),
    /// A name has characters that keys in the store cannot have.
    #[error("'{0}' is not a name: write 1 to 64 letters, digits, '-', '_' or '.'")]
    Name(String),
    /// A label is empty, too long, or not printable.
    #[error("'{0}' is not a label: write 1 to 128 characters of printable ASCII")]
    Label(String),
    /// A list is too long. Fields: the list's name, and the maximum number of prefixes.
    #[error(
        "the fleet's list '{0}' would have more than {1} prefixes: remove some, or write larger ones"
    )]
    ListFull(String, usize),
    /// The key of a list holds something else. Fields: the list's name, and the key.
    #[error("what the store keeps as the fleet's list '{0}' is no list: delete {1} there")]
    NotAList(String, String),
    /// The store at this address cannot be reached, or refuses.
    #[error("the store at {0} {1}")]
    At(String, Fault),
}

/// A fault of a store.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is no connection. Fields: the system's message, and advice.
    #[error("cannot be reached: {0}: see {1}")]
    Unreachable(String, &'static str),
    /// The TLS handshake failed.
    #[error(
        "and this host do not come to TLS: {0}: see --ca, --cert and --key, and that the port speaks TLS"
    )]
    Tls(String),
    /// There was no answer within this time. Second field: advice.
    #[error("has not answered within {0:?}: see {1}")]
    Timeout(Duration, &'static str),
    /// User or password is wrong, or the store is in protected mode. The client cannot tell these apart.
    #[error(
        "does not take the user and password: see --password-file, ACL LIST there, and that it has a password of its own (requirepass), without which it takes nobody from other hosts"
    )]
    Denied,
    /// The user lacks a right.
    #[error(
        "does not let this user do what a fleet needs: {0}: give it the rights of docs/fleet.md"
    )]
    Forbidden(String),
    /// The server is another program, or too old.
    #[error("is {0}, and a fleet needs Redis 7.0 or Valkey, or later: name another store")]
    NotAStore(String),
    /// The store is out of memory.
    #[error("is full: raise its maxmemory, or set maxmemory-policy to volatile-ttl")]
    Full,
    /// The server is a replica.
    #[error("is a replica, which takes no changes: name the one that it copies")]
    Replica,
    /// The store is not ready, and will work again by itself.
    #[error("is not ready: {0}: wait, and see its log if that goes on")]
    NotReady(String),
    /// The answer is not valid for the request.
    #[error("has answered what no store answers ({0}): see what runs there, and what is between")]
    Garbled(String),
    /// The round spans several shards, which a cluster cannot process.
    #[error("is a cluster now, and this round is about several shards: start the agent again")]
    NotOneShard,
    /// Any other error.
    #[error("refuses: {0}: see its log")]
    Refused(String),
}

impl Error {
    /// Whether the connection cannot be used any more.
    #[must_use]
    pub fn is_of_the_connection(&self) -> bool {
        use Fault::{Denied, Garbled, NotAStore, Replica, Timeout, Tls, Unreachable};
        matches!(
            self,
            Self::At(
                _,
                Unreachable(..)
                    | Tls(_)
                    | Timeout(..)
                    | Denied
                    | NotAStore(_)
                    | Replica
                    | Garbled(_)
            )
        )
    }
}
