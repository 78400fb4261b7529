//! Entries of a source that are not in force, by reason.

use serde::{Deserialize, Serialize};

/// The reason why entries of a source are not in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Not an address or prefix, or one that must not be banned.
    Invalid,
    /// A decision other than a ban.
    NotBan,
    /// It covers an address that the host needs.
    Protected,
    /// A ban of another origin stays instead.
    OtherOrigin,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 4] = [
        Self::Invalid,
        Self::NotBan,
        Self::Protected,
        Self::OtherOrigin,
    ];

    /// Its name in metrics and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotBan => "not_ban",
            Self::Protected => "protected",
            Self::OtherOrigin => "other_origin",
        }
    }

    /// Words for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Invalid => "not addresses or prefixes to ban",
            Self::NotBan => "not bans",
            Self::Protected => "would cut this host off",
            Self::OtherOrigin => "banned by another origin already",
        }
    }
}

/// Entries that are left out for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The reason.
    pub reason: Reason,
    /// Number of entries.
    pub entries: u64,
    /// The first of them, in words.
    pub first: String,
}

/// The longest description of an entry, in characters. It may quote the source, which must not fill logs.
const LONGEST: usize = 120;

impl LeftOut {
    /// Counts one more entry that is left out.
    pub fn add(all: &mut Vec<Self>, reason: Reason, first: impl FnOnce() -> String) {
        Self::add_many(all, reason, 1, first);
    }

    /// Counts more entries that are left out.
    pub fn add_many(
        all: &mut Vec<Self>,
        reason: Reason,
        entries: u64,
        first: impl FnOnce() -> String,
    ) {
        match all.iter_mut().find(|known| known.reason == reason) {
            _ if entries == 0 => {}
            Some(known) => known.entries += entries,
            None => {
                let first = first();
                let first = first
                    .chars()
                    .filter(|character| !character.is_control())
                    .take(LONGEST);
                all.push(Self {
                    reason,
                    entries,
                    first: first.collect(),
                });
            }
        }
    }

    /// The entries as a line shows them.
    pub fn text(&self) -> String {
        let (entries, why, first) = (self.entries, self.reason.text(), &self.first);
        match entries {
            1 => format!("1 entry is left out ({why}): {first}"),
            _ => format!("{entries} entries are left out ({why}), the first: {first}"),
        }
    }
}
