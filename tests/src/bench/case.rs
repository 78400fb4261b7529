//! Defines the cases of traffic: number and family of sources, number of processors, and the verdict.

use std::{fmt, str::FromStr};

pub use limiter_tests::scenario::{Family, Verdict};
use serde::Serialize;

use super::mix::Traffic;

/// The sources of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// One source, and no wire: the program alone, on one packet again and again.
    Hot,
    /// This number, a power of two. They send one after the other.
    Number(u32),
    /// A million. Half of the packets are from one of them, a quarter from 4, an eighth from 16, and so on.
    Heavy,
    /// A new source in every packet. At ten million per second, they last for 100 s.
    New,
}

impl Sources {
    /// Number of sources: a power of two.
    pub fn count(self) -> u32 {
        match self {
            Self::Hot => 1,
            Self::Number(number) => number,
            Self::Heavy => 1 << 20,
            Self::New => 1 << 30,
        }
    }

    /// Room in the table: twice the sources, or a million if all are new.
    pub fn capacity(self) -> u32 {
        (2 * self.count()).clamp(1 << 16, if self == Self::New { 1 << 20 } else { 1 << 24 })
    }
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<u32>() {
            _ if text == "hot" => Ok(Self::Hot),
            _ if text == "heavy" => Ok(Self::Heavy),
            _ if text == "new" => Ok(Self::New),
            Ok(number) if number.is_power_of_two() && number <= 1 << 23 => Ok(Self::Number(number)),
            _ => Err("write a power of two, up to 8388608, or hot, heavy or new".into()),
        }
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Hot => f.write_str("hot"),
            Self::Heavy => f.write_str("heavy"),
            Self::New => f.write_str("new"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl Serialize for Sources {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cpus {
    /// One processor.
    One,
    /// Two processors at the same time, with packets of the same sources.
    Same,
    /// Two processors at the same time, each with its own sources.
    Different,
}

impl Cpus {
    pub fn count(self) -> usize {
        if self == Self::One { 1 } else { 2 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    pub traffic: Traffic,
    pub family: Family,
    pub verdict: Verdict,
    pub sources: Sources,
    pub cpus: Cpus,
}

impl Case {
    /// True for known sources on one processor.
    pub fn is_usual(&self) -> bool {
        matches!(self.sources, Sources::Number(_)) && matches!(self.cpus, Cpus::One)
    }

    /// Title of a table: the properties that its cases share.
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
        let traffic = self.traffic.recipe().map_or_else(String::new, |recipe| {
            let bytes = self.traffic.mean_bytes(self.family);
            format!("packets of {bytes} bytes on average for the recipe {recipe}, ")
        });
        format!("{traffic}{family}, {verdict}, {cpus}")
    }
}
