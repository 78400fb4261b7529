//! Settings: one value for everything that can be configured, by flags or by a file.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    Adaptive, Algorithm, Burst, Control, Direction, Exempt, Key, Lists, Malformed, Match, Mode,
    NewSources, Proof, Rate, Scope, Time,
};

/// Name of the limit that the command line creates.
pub const DEFAULT_LIMIT: &str = "default";
/// The most limits.
pub const LIMITS_MAX: usize = 32;
/// The most sources of a table.
pub const SOURCES_MAX: u32 = 1 << 24;
/// The most bans.
pub const BANS_MAX: u32 = 1 << 24;

/// Settings of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The wanted mode.
    pub mode: Mode,
    /// The packets that the limits are for.
    pub direction: Direction,
    /// The number of sources that the table has room for.
    pub max_sources: u32,
    /// The number of bans that there is room for.
    pub max_bans: u32,
    /// The limit on new sources; `None`: no limit.
    pub new_sources: Option<NewSources>,
    /// Packets that are exempt from the limits.
    pub exempt: Exempt,
    /// The limits on control traffic, if that is exempt.
    pub control: Control,
    /// Treatment of malformed IP.
    pub malformed: Malformed,
    /// Charge and count, but drop nothing.
    pub shadow: bool,
    /// The fleet that shares the limits and lists of its scope; `None`: this host belongs to no fleet.
    pub fleet: Option<String>,
    /// Names of the lists that the fleet adds prefixes to.
    pub fleet_lists: BTreeSet<String>,
    /// Lists of sources, which may be long. The record does not have them: they are read back from the maps.
    #[serde(skip)]
    pub lists: Lists,
    /// The limits, in the order in which they are checked.
    pub limits: Vec<Limit>,
}

impl Settings {
    /// Returns true if new sources may prove their address.
    pub fn has_proof(&self) -> bool {
        self.limits.iter().any(|limit| limit.proof != Proof::None)
    }
}

impl Default for Settings {
    /// No limits yet, and the defaults of everything else.
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            direction: Direction::In,
            max_sources: 65_536,
            max_bans: 65_536,
            new_sources: Some(NewSources::default()),
            exempt: Exempt::default(),
            control: Control::default(),
            malformed: Malformed::Drop,
            shadow: false,
            fleet: None,
            fleet_lists: BTreeSet::new(),
            lists: Lists::default(),
            limits: Vec::new(),
        }
    }
}

/// A limit: matching packets are charged to one bucket for each key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The limit's name in `status` and the metrics.
    pub name: String,
    /// The packets that the limit applies to.
    pub matches: Match,
    /// The parts of a packet that select its bucket.
    pub key: Key,
    /// Refill rate of a bucket.
    pub rate: Rate,
    /// The most tokens of a bucket; `None`: it follows the rate.
    pub burst: Option<Burst>,
    /// Tokens that a packet costs; `None`: one for a packet rate, its length in bytes for a bit rate.
    pub cost: Option<u64>,
    /// The way a bucket refills.
    pub algorithm: Algorithm,
    /// The time for which a source stays refused after its first refused packet; `None`: until it has a token.
    pub hold: Option<Time>,
    /// The longest time for which packets over the limit are delayed; `None`: they are dropped.
    pub max_delay: Option<Time>,
    /// The signals that lower the rate; `None`: the rate is constant.
    pub adaptive: Option<Adaptive>,
    /// The way in which a new source that is refused may prove its address.
    pub proof: Proof,
    /// Charge and count, but drop nothing.
    pub shadow: bool,
    /// The hosts that charge the buckets.
    pub scope: Scope,
}

impl Limit {
    /// A limit on all packets, by source address.
    pub fn new(name: &str, rate: Rate) -> Self {
        Self {
            name: name.to_owned(),
            matches: Match::default(),
            key: Key::default(),
            rate,
            burst: None,
            cost: None,
            algorithm: Algorithm::TokenBucket,
            hold: None,
            max_delay: None,
            adaptive: None,
            proof: Proof::None,
            shadow: false,
            scope: Scope::Host,
        }
    }
}
