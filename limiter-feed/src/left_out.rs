//! Entries of a source that are not in force, by reason.

use limiter_lists::Reason as InList;
use serde::{Deserialize, Serialize};

/// The reason why entries of a source are not in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Not an address or prefix, or one of CrowdSec's that must not be banned.
    Invalid,
    /// Marked as not to be banned, or a decision of a type that is not known.
    NotBan,
    /// A decision of type captcha.
    Captcha,
    /// A decision of type throttle.
    Throttle,
    /// A decision about a country.
    Country,
    /// A decision about an autonomous system.
    AutonomousSystem,
    /// A decision about something else than addresses.
    OtherScope,
    /// The allow list has the addresses, so that the ban has no effect.
    Allowed,
    /// It covers an address that the host needs.
    Protected,
    /// So much of the Internet that it must not be banned.
    TooLarge,
    /// Text behind the address is no comment.
    Text,
    /// It may be a range, a length or a count.
    Ambiguous,
    /// A range whose ends or length do not fit together.
    Range,
    /// A length or netmask that does not exist.
    Length,
    /// Numbers that may be octal.
    LeadingZeros,
    /// An address with a port.
    Port,
    /// An address with a zone.
    Zone,
    /// A row or line without the field.
    NoField,
    /// A rule, or an element that is more than an address.
    OtherKind,
    /// It covers an address that the host needs, and is banned without that address.
    InPart,
    /// There is no room for the ban.
    NoRoom,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 21] = [
        Self::Invalid,
        Self::NotBan,
        Self::Captcha,
        Self::Throttle,
        Self::Country,
        Self::AutonomousSystem,
        Self::OtherScope,
        Self::Allowed,
        Self::Protected,
        Self::TooLarge,
        Self::Text,
        Self::Ambiguous,
        Self::Range,
        Self::Length,
        Self::LeadingZeros,
        Self::Port,
        Self::Zone,
        Self::NoField,
        Self::OtherKind,
        Self::InPart,
        Self::NoRoom,
    ];

    /// Its name in metrics and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotBan => "not_ban",
            Self::Captcha => "captcha",
            Self::Throttle => "throttle",
            Self::Country => "country",
            Self::AutonomousSystem => "autonomous_system",
            Self::OtherScope => "other_scope",
            Self::Allowed => "allowed",
            Self::Protected => "protected",
            Self::TooLarge => "too_large",
            Self::Text => "text",
            Self::Ambiguous => "ambiguous",
            Self::Range => "range",
            Self::Length => "length",
            Self::LeadingZeros => "leading_zeros",
            Self::Port => "port",
            Self::Zone => "zone",
            Self::NoField => "no_field",
            Self::OtherKind => "other_kind",
            Self::InPart => "in_part",
            Self::NoRoom => "no_room",
        }
    }

    /// Words for people.
    pub fn text(self) -> String {
        let in_list = match self {
            Self::NotBan => return "not bans".to_owned(),
            Self::Captcha => return "captchas, which a web server must show".to_owned(),
            Self::Throttle => {
                return "throttles, and no limit has source = \"throttled\"".to_owned();
            }
            Self::Country => {
                return "countries: drop them with deny = { geoip = … } in the configuration"
                    .to_owned();
            }
            Self::AutonomousSystem => {
                return "autonomous systems: drop them with deny = { asn = … } in the configuration"
                    .to_owned();
            }
            Self::OtherScope => return "not about addresses".to_owned(),
            Self::Allowed => return "on the allow list, so that they pass".to_owned(),
            Self::Protected => return "would cut this host off".to_owned(),
            Self::TooLarge => return "too much of the Internet to ban".to_owned(),
            Self::InPart => return "in part, or they would cut this host off".to_owned(),
            Self::NoRoom => return "no room: attach again with a larger --max-bans".to_owned(),
            Self::Invalid => InList::NotAddress,
            Self::Text => InList::Text,
            Self::Ambiguous => InList::Ambiguous,
            Self::Range => InList::WrongRange,
            Self::Length => InList::WrongLength,
            Self::LeadingZeros => InList::LeadingZeros,
            Self::Port => InList::Port,
            Self::Zone => InList::Zone,
            Self::NoField => InList::NoField,
            Self::OtherKind => InList::OtherKind,
        };
        in_list.to_string()
    }
}

impl From<InList> for Reason {
    fn from(reason: InList) -> Self {
        match reason {
            InList::NotAddress => Self::Invalid,
            InList::Text => Self::Text,
            InList::Ambiguous => Self::Ambiguous,
            InList::WrongRange => Self::Range,
            InList::WrongLength => Self::Length,
            InList::LeadingZeros => Self::LeadingZeros,
            InList::Port => Self::Port,
            InList::Zone => Self::Zone,
            InList::NoField => Self::NoField,
            InList::NotBan => Self::NotBan,
            InList::OtherKind => Self::OtherKind,
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
