//! Configuration: from text to settings, and from settings to the kernel's values.
//!
//! This crate knows nothing of aya, maps or interfaces, and reads nothing but the files that users name.

#![forbid(unsafe_code)]

pub mod adaptive;
pub mod bans;
pub mod burst;
mod changed_meaning;
pub mod compile;
pub mod control;
pub mod difference;
pub mod file;
pub mod files;
pub mod index;
pub mod ineffective;
pub mod key;
pub mod limit_quota;
mod limits;
pub mod lists;
pub mod matches;
mod merge;
pub mod names;
pub mod nat64;
pub mod new_sources;
pub mod number;
pub mod overlay;
pub mod places;
mod prefixes;
pub mod problems;
pub mod rate;
pub mod reader;
pub mod settings;
pub mod shares;
pub mod slot;
mod small_burst;
pub mod table_warning;
#[cfg(test)]
mod tests;
mod text;
mod tiers;
pub mod time;
mod translators;
pub mod words;

pub use adaptive::Adaptive;
pub use burst::Burst;
pub use control::Control;
pub use key::{Key, Parts};
pub use limit_quota::LimitQuota;
pub use lists::{ALLOW, DENY, Lists};
pub use matches::{Destination, Match, Protocol};
pub use new_sources::NewSources;
pub use overlay::Overlay;
pub use prefixes::Prefixes;
pub use problems::Part;
pub use rate::{Rate, Unit};
pub use settings::{Limit, Settings};
pub use slot::Slot;
pub use text::{Invalid, NONE, OrNone, Text, escape, on_one_line};
pub(crate) use text::{as_text, ensure};
pub use tiers::TierBits;
pub use time::Time;
pub use translators::Translator;
pub use words::{Algorithm, Direction, Exempt, Exemption, Malformed, Mode, Proof, Proofs, Scope};
