//! The bans of one origin, as a program and the kernel's side tell each other about them.

use std::collections::HashMap;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The bans of an origin on an interface, by prefix.
pub type Own = HashMap<IpNet, OwnBan>;

/// A ban of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnBan {
    /// Milliseconds until it ends; `u64::MAX`: it has no end.
    pub left: u64,
    /// True if it throttles its sources instead of dropping their packets.
    pub is_throttle: bool,
}

/// A ban to add or renew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// The prefix.
    pub prefix: IpNet,
    /// The ban as it is to be.
    pub ban: OwnBan,
    /// The reason.
    pub reason: String,
}

/// A change of bans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// Bans to add or renew.
    pub add: Vec<Wish>,
    /// Prefixes whose bans end.
    pub remove: Vec<IpNet>,
}

impl Edit {
    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}
