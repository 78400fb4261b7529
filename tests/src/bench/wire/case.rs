//! What is offered: from how many sources, of which family, on how many processors, and what a limit
//! makes of it.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use serde::Serialize;

/// The version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Sources are addresses.
    Ipv4,
    /// Sources are /64 networks.
    Ipv6,
}

impl Family {
    /// The source whose number is 0. The others follow: IPv4 in 128.0.0.0/2, which the stack takes
    /// from anybody; IPv6 in a network that is for documentation.
    pub fn first_source(self) -> IpAddr {
        match self {
            Self::Ipv4 => Ipv4Addr::new(128, 0, 0, 0).into(),
            Self::Ipv6 => Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0xffff, 0xffff).into(),
        }
    }
}

/// What becomes of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Each source has sent its one packet an hour already.
    Dropped,
    /// No source comes near a million a second.
    Passed,
}

/// How many sources there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// So many, a power of two, one after the other.
    Number(u32),
    /// Every packet has a source that was never seen before.
    New,
}

/// Sources that there are where all are new: at ten million a second they last for 100 s.
const NEW: u32 = 1 << 30;

impl Sources {
    /// Room for all of them, and as much again; where they are new, for a million.
    pub fn capacity(self) -> u32 {
        match self {
            Self::Number(number) => (2 * number).max(65_536),
            Self::New => 1 << 20,
        }
    }

    /// How many numbers they have.
    pub fn count(self) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::New => NEW,
        }
    }

    /// How many packets it takes until each has been seen; where they are new, until there is no room
    /// for more.
    pub fn to_fill(self) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::New => self.capacity(),
        }
    }
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<u32>() {
            _ if text == "new" => Ok(Self::New),
            Ok(number) if number.is_power_of_two() && number <= 1 << 23 => Ok(Self::Number(number)),
            _ => Err("write a power of two, up to 8388608, or new".into()),
        }
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => f.pad(&number.to_string()),
            Self::New => f.pad("new"),
        }
    }
}

impl Serialize for Sources {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cpus {
    /// One processor.
    One,
    /// Two at once, packets of the same sources.
    Same,
    /// Two at once, each so many sources of its own.
    Different,
}

impl Cpus {
    /// How many.
    pub fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Same | Self::Different => 2,
        }
    }
}

/// What is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// The version of IP.
    pub family: Family,
    /// What becomes of the packets.
    pub verdict: Verdict,
    /// How many sources.
    pub sources: Sources,
    /// On how many processors.
    pub cpus: Cpus,
}

impl Case {
    /// Whether `other` stands in the same table.
    pub fn is_beside(&self, other: &Self) -> bool {
        let Self {
            family,
            verdict,
            cpus,
            ..
        } = *self;
        (family, verdict, cpus) == (other.family, other.verdict, other.cpus)
    }

    /// What the cases of a table have in common.
    pub fn title(&self) -> String {
        let family = match self.family {
            Family::Ipv4 => "IPv4",
            Family::Ipv6 => "IPv6",
        };
        let verdict = match self.verdict {
            Verdict::Dropped => "over the limit",
            Verdict::Passed => "below the limit",
        };
        let cpus = match self.cpus {
            Cpus::One => "one processor",
            Cpus::Same => "two processors, same sources",
            Cpus::Different => "two processors, each its own sources",
        };
        format!("{family}, {verdict}, {cpus}")
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, sources: {}", self.title(), self.sources)
    }
}
