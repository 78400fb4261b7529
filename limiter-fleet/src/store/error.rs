//! What can go wrong between here and the store. No message has the password in it.

use std::time::Duration;

/// The store was not asked, or has not answered, or not what it is to answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing that a store could be reached by.
    #[error(
        "the store's address is of no use: {0}: write redis://HOST[:PORT] or rediss://[USER[:PASSWORD]@]HOST[:PORT][/DB], or unix:///PATH"
    )]
    Address(String),
    /// A certificate or key is none.
    #[error(
        "the certificates for the store are of no use: {0}: see --ca, --cert and --key, which name files in PEM format"
    )]
    Certificates(String),
    /// No connection, or it is gone.
    #[error("the store at {at} cannot be reached: {why}: see {advice}")]
    Unreachable {
        /// Where it is.
        at: String,
        /// What the system says.
        why: String,
        /// What may be so.
        advice: &'static str,
    },
    /// No agreement on TLS.
    #[error(
        "the store at {at} and this host do not come to TLS: {why}: see --ca, --cert and --key, and that the port speaks TLS"
    )]
    Tls {
        /// Where it is.
        at: String,
        /// What is wrong.
        why: String,
    },
    /// It did not answer in time.
    #[error("the store at {at} has not answered within {after:?}: see {advice}")]
    Timeout {
        /// Where it is.
        at: String,
        /// How long it was waited for.
        after: Duration,
        /// What may be so.
        advice: &'static str,
    },
    /// Wrong user or password; or a store in protected mode, which the client does not tell apart.
    #[error(
        "the store at {at} does not take the user and password: see --password-file, ACL LIST there, and that it has a password of its own (requirepass), without which it takes nobody from other hosts"
    )]
    Denied {
        /// Where it is.
        at: String,
    },
    /// The user may not do that.
    #[error(
        "the store at {at} does not let this user do what a fleet needs: {why}: give it the rights of docs/fleet.md"
    )]
    Forbidden {
        /// Where it is.
        at: String,
        /// What it says.
        why: String,
    },
    /// Another program, or an old one.
    #[error(
        "what is at {at} is {what}, and a fleet needs Redis 7.0 or Valkey, or later: name another store"
    )]
    NotAStore {
        /// Where it is.
        at: String,
        /// What it is.
        what: String,
    },
    /// Out of memory.
    #[error(
        "the store at {at} is full: raise its maxmemory, or set maxmemory-policy to volatile-ttl"
    )]
    Full {
        /// Where it is.
        at: String,
    },
    /// A replica.
    #[error("the store at {at} is a replica, which takes no changes: name the one that it copies")]
    Replica {
        /// Where it is.
        at: String,
    },
    /// It will work again by itself.
    #[error("the store at {at} is not ready: {why}: wait, and see its log if that goes on")]
    NotReady {
        /// Where it is.
        at: String,
        /// What it says.
        why: String,
    },
    /// It answers something else.
    #[error(
        "the store at {at} has answered what no store answers ({what}): see what runs there, and what is between"
    )]
    Garbled {
        /// Where it is.
        at: String,
        /// What is wrong with it.
        what: String,
    },
    /// Any other error.
    #[error("the store at {at} refuses: {why}: see its log")]
    Refused {
        /// Where it is.
        at: String,
        /// What it says.
        why: String,
    },
    /// A name that would not stay apart from others.
    #[error("'{0}' is not a name: write 1 to 64 letters, digits, '-', '_' or '.'")]
    Name(String),
    /// A label that others would not take.
    #[error("'{0}' is not a label: write 1 to 128 characters of printable ASCII")]
    Label(String),
    /// A round that a cluster cannot take in one piece.
    #[error(
        "this round is about several shards, and the store at {at} is a cluster: start the agent again"
    )]
    NotOneShard {
        /// Where it is.
        at: String,
    },
    /// A list that is too long.
    #[error(
        "the fleet's list '{list}' would have more than {most} prefixes: remove some, or write larger ones"
    )]
    ListFull {
        /// Its name.
        list: String,
        /// How many it may have.
        most: usize,
    },
    /// Somebody has something else there.
    #[error("what the store keeps as the fleet's list '{list}' is no list: delete {key} there")]
    NotAList {
        /// Its name.
        list: String,
        /// Where it is kept.
        key: String,
    },
}

impl Error {
    /// Whether the connection is not to be used again.
    #[must_use]
    pub fn is_of_the_connection(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Tls { .. }
                | Self::Timeout { .. }
                | Self::Denied { .. }
                | Self::NotAStore { .. }
                | Self::Replica { .. }
                | Self::Garbled { .. }
        )
    }
}
