//! The host of a feed, as the feed sees it.

use ipnet::IpNet;
use limiter_config::bans::{Edit, Own};
use serde::{Deserialize, Serialize};

use crate::{LeftOut, Protected};

/// The bans on an interface, as a feed must know them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Present {
    /// The feed's own bans.
    pub own: Own,
    /// The room for more.
    pub room: u64,
    /// The networks on the allow list, which no ban of a feed drops.
    pub allowed: Vec<IpNet>,
    /// True if a limit is about throttled sources.
    pub has_throttle: bool,
}

/// The bans by interface, or why they cannot be read.
pub type OwnBy = Vec<(String, Result<Present, String>)>;

/// The bans in force, and the addresses that must not be banned.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// The feed's own bans, by interface.
    pub own: OwnBy,
    /// Addresses that the host needs.
    pub protected: Protected,
}

/// The host of a feed.
pub trait Host {
    /// The feed's own bans in force, and the room for more. `interfaces`: their names; empty: all.
    fn own(&mut self, interfaces: &[String]) -> impl Future<Output = Result<Found, String>>;

    /// Adds or renews bans, and removes others. Bans of other origins stay as they are.
    fn change(&mut self, interface: &str, edit: Edit) -> impl Future<Output = Result<(), String>>;

    /// Returns true if the host cannot answer any more.
    fn is_gone(&self) -> bool;

    /// Publishes the state of the feed.
    fn report(&mut self, state: &State);
}

/// The state of a feed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct State {
    /// Interfaces; empty: all that limiter is attached to.
    pub interfaces: Vec<String>,
    /// Path or URL of the source.
    pub source: String,
    /// Bans that the source wants.
    pub wanted: u64,
    /// Entries of the source that are not in force, by reason.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// The format in which the list was last read.
    #[serde(default)]
    pub read_as: Option<ReadAs>,
    /// Bans that CrowdSec's last full answer lacks. They stay until another one, half a minute later, lacks them too.
    #[serde(default)]
    pub held_back: u64,
    /// Time of the last round without an error, in seconds since 1970.
    pub succeeded: Option<u64>,
    /// The error of the last round.
    pub error: Option<String>,
}

/// The format of a list that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadAs {
    /// The format.
    pub format: String,
    /// The reason why the list has this format.
    pub why: String,
    /// Entries that were read.
    pub entries: u64,
    /// Different prefixes that may be banned. A range may be several.
    #[serde(default)]
    pub prefixes: u64,
    /// Entries of these with bits set behind the length of their prefix: their networks are banned.
    pub networks: u64,
    /// The place of the first of them in the list.
    pub first_network: Option<String>,
}

impl ReadAs {
    /// Lines about how the list was read.
    pub fn notes(&self) -> Vec<String> {
        let Self {
            format,
            why,
            entries,
            prefixes,
            networks,
            ..
        } = self;
        let entries = match entries {
            1 => "1 entry".to_owned(),
            count => format!("{count} entries"),
        };
        let prefixes = match prefixes {
            1 => "1 prefix".to_owned(),
            count => format!("{count} prefixes"),
        };
        let mut notes = vec![format!("read {entries} ({prefixes}) as {format} ({why})")];
        if let Some(first) = &self.first_network {
            notes.push(format!(
                "entries with bits set behind the length of their prefix, whose networks are banned: {networks}, the first in {first}"
            ));
        }
        notes
    }
}
