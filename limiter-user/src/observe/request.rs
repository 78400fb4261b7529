//! Requests of users without privileges to the exporter, over its Unix socket.

use limiter_config::matches::TcpFlags;
use serde::{Deserialize, Serialize};

use super::{BanOrder, Query};

/// The default path of the exporter's socket.
pub const SOCKET: &str = "/run/limiter-export/socket";

/// Number of bans and of held sources in an answer.
pub const BANS_MAX: usize = 1_000;

/// A request. There are no others, and none changes anything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// [`super::Snapshot`].
    Snapshot,
    /// [`Answer`] of `check`.
    Check(AboutSource),
    /// [`Answer`] of `bans`.
    Bans(AboutBans),
}

/// The arguments of `check`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AboutSource {
    /// The interface.
    pub interface: String,
    /// The source, and the options of its packets.
    pub query: Query,
    /// Flags of a TCP segment.
    pub flags: Option<TcpFlags>,
}

/// The arguments of `bans`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AboutBans {
    /// The interface.
    pub interface: String,
    /// Only bans of this origin.
    pub origin: Option<String>,
    /// The order.
    pub order: BanOrder,
    /// Number of bans; at most [`BANS_MAX`].
    pub most: usize,
}

/// An answer in both forms that a command prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The document of `--json`, without warnings.
    pub document: serde_json::Value,
    /// The text for people.
    pub text: String,
}
