//! Landlock: no file by name, no new TCP connection, no other process.

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError, Scope};

use super::{Error, Result};

/// What is known of Landlock here; of it the kernel does what it can (Linux 5.13 and later, where it is switched on).
const NEWEST: ABI = ABI::V6;

/// Allows nothing that Landlock can forbid.
pub fn hide_all() -> Result<()> {
    let restricted = || -> std::result::Result<_, RulesetError> {
        Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .restrict_self()
    };
    restricted()
        .map(drop)
        .map_err(|error| Error::new("Landlock", error))
}
