//! The values of a match: protocols, ports, TCP flags, versions of IP.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::config::{Invalid, as_text};

/// Number of a transport protocol, as assigned by IANA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Protocol(pub u8);

const PROTOCOLS: [(&str, u8); 11] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("sctp", 132),
    ("udplite", 136),
];

impl Protocol {
    /// TCP.
    pub const TCP: Self = Self(6);

    /// Returns true if the protocol's header begins with two ports.
    pub fn has_ports(self) -> bool {
        matches!(self.0, 6 | 17 | 33 | 132 | 136)
    }
}

impl FromStr for Protocol {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if let Some((_, number)) = PROTOCOLS.iter().find(|(name, _)| *name == text) {
            return Ok(Self(*number));
        }
        text.parse().map(Self).map_err(|_| {
            let names: Vec<_> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
            Invalid::new(format!(
                "'{text}' is not a known protocol: write one of {}, or a number from 0 to 255",
                names.join(", ")
            ))
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Ports and ranges of ports, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports(pub Vec<PortRange>);

/// A range of ports, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest; equal to `first` for one port.
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let port = |digits: &str| number(digits, u16::MAX.into());
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ends = port(first).zip(port(last)).ok_or_else(|| {
            Invalid::new(format!(
                "'{text}' is not a port: write a number from 0 to 65535, or a range as in 5300-5353"
            ))
        })?;
        let (first, last) = in_order(text, ends)?;
        Ok(Self {
            first: u16::try_from(first).unwrap_or(u16::MAX),
            last: u16::try_from(last).unwrap_or(u16::MAX),
        })
    }
}

/// Reads digits only, up to the number `most`.
fn number(digits: &str, most: u32) -> Option<u32> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|number| *number <= most);
    number.filter(|_| is_number)
}

/// Checks that the two ends of a range are in order.
fn in_order(text: &str, (first, last): (u32, u32)) -> Result<(u32, u32), Invalid> {
    if first > last {
        return Err(Invalid::new(format!(
            "'{text}' is a range that ends before it begins: write {last}-{first}"
        )));
    }
    Ok((first, last))
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// Lengths of IP packets in bytes, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Lengths {
    /// The smallest length.
    pub first: u32,
    /// The largest length.
    pub last: u32,
}

impl Lengths {
    /// The longest IP packet: an IPv6 header and 65,535 bytes after it.
    const MAX: u32 = 40 + u16::MAX as u32;
}

impl FromStr for Lengths {
    type Err = Invalid;

    /// Reads `60`, `0-100`, or `1200-` for 1200 and more.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let bytes = |digits: &str| number(digits, Self::MAX);
        let ends = match text.split_once('-') {
            None => bytes(text).zip(bytes(text)),
            Some((first, "")) => bytes(first).map(|first| (first, Self::MAX)),
            Some((first, last)) => bytes(first).zip(bytes(last)),
        };
        let ends = ends.ok_or_else(|| {
            Invalid::new(format!(
                "'{text}' is not a length: write bytes from 0 to {}, as in 60, 0-100 or 1200-",
                Self::MAX
            ))
        })?;
        let (first, last) = in_order(text, ends)?;
        Ok(Self { first, last })
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, last) if first == last => write!(f, "{first}"),
            (first, Self::MAX) => write!(f, "{first}-"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

/// Flags of a TCP segment: those that are examined, and those of them that must be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TcpFlags {
    /// The flags that must be set, in the order of the header's bits.
    pub set: u8,
    /// The flags that are examined; the others may have any value.
    pub looked_at: u8,
}

const FLAGS: [(&str, u8); 8] = [
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ece", 64),
    ("cwr", 128),
];

/// The flags that distinguish segments that open, continue and end a connection. So `syn` alone means a segment that
/// opens one.
const BY_DEFAULT: u8 = 1 | 2 | 4 | 16;

fn flags(text: &str) -> Result<u8, Invalid> {
    let flag = |name: &str| {
        let found = FLAGS.iter().find(|(known, _)| *known == name);
        found.map(|(_, bit)| *bit).ok_or_else(|| {
            let names: Vec<_> = FLAGS.iter().map(|(name, _)| *name).collect();
            Invalid::new(format!(
                "'{name}' is not a TCP flag: write some of {}, as in syn or syn,ack",
                names.join(", ")
            ))
        })
    };
    text.split(',')
        .try_fold(0, |bits, name| Ok(bits | flag(name)?))
}

/// Names of the flags in `bits`.
pub fn flag_names(bits: u8) -> Vec<&'static str> {
    let set = FLAGS.iter().filter(|(_, bit)| bits & bit != 0);
    set.map(|(name, _)| *name).collect()
}

impl FromStr for TcpFlags {
    type Err = Invalid;

    /// Reads `syn`: syn is set, and ack, fin and rst are not. With `syn/syn`: syn is set, and the others may be.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (set, looked_at) = match text.split_once('/') {
            None => {
                let set = flags(text)?;
                (set, set | BY_DEFAULT)
            }
            Some(("", looked_at)) => (0, flags(looked_at)?),
            Some((set, looked_at)) => (flags(set)?, flags(looked_at)?),
        };
        if set & !looked_at != 0 {
            return Err(Invalid::new(format!(
                "'{text}' requires flags that it does not compare: name them after the slash too, as in syn/syn,ack"
            )));
        }
        Ok(Self { set, looked_at })
    }
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = flag_names(self.set).join(",");
        if self.set != 0 && self.looked_at == self.set | BY_DEFAULT {
            f.write_str(&set)
        } else {
            write!(f, "{set}/{}", flag_names(self.looked_at).join(","))
        }
    }
}

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl FromStr for IpVersion {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "4" => Ok(Self::V4),
            "6" => Ok(Self::V6),
            _ => Err(Invalid::new(format!(
                "{text} is not a version of IP: write 4 or 6"
            ))),
        }
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::V4 { "4" } else { "6" })
    }
}

as_text!(Protocol, PortRange, Lengths, TcpFlags);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn match_values_read_back() {
        for (text, shown) in [("tcp", "tcp"), ("17", "udp"), ("253", "253"), ("0", "0")] {
            assert_eq!(text.parse::<Protocol>().unwrap().to_string(), shown);
        }
        for (text, shown) in [
            ("53", "53"),
            ("5300-5353", "5300-5353"),
            ("7-7", "7"),
            ("0-65535", "0-65535"),
        ] {
            assert_eq!(text.parse::<PortRange>().unwrap().to_string(), shown);
        }
        for (text, shown) in [
            ("60", "60"),
            ("60-60", "60"),
            ("0-100", "0-100"),
            ("1200-", "1200-"),
            ("1200-65575", "1200-"),
        ] {
            assert_eq!(text.parse::<Lengths>().unwrap().to_string(), shown);
        }
        for (text, shown) in [
            ("syn", "syn"),
            ("ack,syn", "syn,ack"),
            ("syn/syn", "syn/syn"),
            ("/syn", "/syn"),
            ("syn/syn,ack,fin,rst", "syn"),
            ("psh,ack", "psh,ack"),
        ] {
            assert_eq!(
                text.parse::<TcpFlags>().unwrap().to_string(),
                shown,
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_match_values_are_refused() {
        for text in ["", "TCP", "256", "-1", "tcp,udp"] {
            assert!(text.parse::<Protocol>().is_err(), "{text}");
        }
        for text in ["", "65536", "9-8", "-1", "1-2-3", "+5", "http"] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
        for text in ["", "-", "-100", "100-60", "65576", "1k", "0-1-2"] {
            assert!(text.parse::<Lengths>().is_err(), "{text}");
        }
        for text in ["", "SYN", "syn,", "syn/ack", "syn/", "xyz"] {
            assert!(text.parse::<TcpFlags>().is_err(), "{text}");
        }
    }
}
