//! Landlock: blocks access to files by name, new TCP connections, and access to other processes.

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError, Scope};

use super::{Error, Result};

/// The newest Landlock version known here. The kernel applies the part that it supports (Linux 5.13 and later, if
/// enabled).
const NEWEST: ABI = ABI::V6;

/// Forbids everything that Landlock can forbid.
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
