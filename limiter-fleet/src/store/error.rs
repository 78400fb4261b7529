//! What can go wrong between here and the store. No message has the password in it.

use std::time::Duration;

/// The store was not asked, or did not answer, or answered something else.
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
    /// A list (its name, and the most prefixes) is too long.
    #[error(
        "the fleet's list '{0}' would have more than {1} prefixes: remove some, or write larger ones"
    )]
    ListFull(String, usize),
    /// The key of a list (its name, and the key) holds something else.
    #[error("what the store keeps as the fleet's list '{0}' is no list: delete {1} there")]
    NotAList(String, String),
    /// The store at this address is not there, or refuses.
    #[error("the store at {0} {1}")]
    At(String, Fault),
}

/// What is wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is no connection: what the system says, and what to check.
    #[error("cannot be reached: {0}: see {1}")]
    Unreachable(String, &'static str),
    /// No agreement on TLS.
    #[error(
        "and this host do not come to TLS: {0}: see --ca, --cert and --key, and that the port speaks TLS"
    )]
    Tls(String),
    /// No answer within this time; what to check.
    #[error("has not answered within {0:?}: see {1}")]
    Timeout(Duration, &'static str),
    /// Wrong user or password; or a store in protected mode, which the client does not tell apart.
    #[error(
        "does not take the user and password: see --password-file, ACL LIST there, and that it has a password of its own (requirepass), without which it takes nobody from other hosts"
    )]
    Denied,
    /// The user may not do that.
    #[error(
        "does not let this user do what a fleet needs: {0}: give it the rights of docs/fleet.md"
    )]
    Forbidden(String),
    /// Another program, or an old one.
    #[error("is {0}, and a fleet needs Redis 7.0 or Valkey, or later: name another store")]
    NotAStore(String),
    /// Out of memory.
    #[error("is full: raise its maxmemory, or set maxmemory-policy to volatile-ttl")]
    Full,
    /// A replica.
    #[error("is a replica, which takes no changes: name the one that it copies")]
    Replica,
    /// It will work again by itself.
    #[error("is not ready: {0}: wait, and see its log if that goes on")]
    NotReady(String),
    /// Its answer is not one to what was asked.
    #[error("has answered what no store answers ({0}): see what runs there, and what is between")]
    Garbled(String),
    /// A round that a cluster cannot take in one piece.
    #[error("is a cluster now, and this round is about several shards: start the agent again")]
    NotOneShard,
    /// Any other error.
    #[error("refuses: {0}: see its log")]
    Refused(String),
}

impl Error {
    /// Whether the connection is not to be used again.
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
