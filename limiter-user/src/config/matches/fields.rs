//! The values of a match: DSCP, ICMP types, destinations, bytes of the payload.

use std::{fmt, str::FromStr};

use ipnet::IpNet;
use limiter_common::abi::rules::{self, OF_ICMPV6, PATTERN_MAX, PAYLOAD_MAX, Pattern};
use serde::{Deserialize, Serialize};

use super::values::{Numbers, Range};
use crate::config::{Invalid, as_text, invalid, lists, names};

/// DSCP values: a name, a number, or a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Dscp(pub Range<63, false>);

/// Names of DSCP values (RFC 2474, 2597, 3246, 5865, 8622).
const CODES: [(&str, u32); 23] = [
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("ef", 46),
    ("voice-admit", 44),
    ("le", 1),
];

impl FromStr for Dscp {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if let Some((_, code)) = CODES.iter().find(|(name, _)| *name == text) {
            let (first, last) = (*code, *code);
            return Ok(Self(Range { first, last }));
        }
        text.parse().map(Self).map_err(|_| {
            invalid!("'{text}' is not a DSCP: write a name as in ef, af41 or cs1, a number from 0 to 63, or a range as in 8-15")
        })
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { first, last } = self.0;
        match CODES.iter().find(|(_, code)| first == *code) {
            Some((name, _)) if first == last => f.write_str(name),
            _ => self.0.fmt(f),
        }
    }
}

impl Numbers for Dscp {
    fn ranges(&self) -> Vec<rules::Range> {
        self.0.ranges()
    }
}

/// A type of ICMP messages, of ICMPv6 messages, or the types of both with one meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IcmpType {
    /// The type in ICMP.
    pub icmp: Option<u8>,
    /// The type in ICMPv6.
    pub icmpv6: Option<u8>,
}

/// Names of types (IANA), with their numbers in ICMP and ICMPv6.
const TYPES: [(&str, Option<u8>, Option<u8>); 17] = [
    ("echo-request", Some(8), Some(128)),
    ("echo-reply", Some(0), Some(129)),
    ("destination-unreachable", Some(3), Some(1)),
    ("packet-too-big", None, Some(2)),
    ("time-exceeded", Some(11), Some(3)),
    ("parameter-problem", Some(12), Some(4)),
    ("source-quench", Some(4), None),
    ("redirect", Some(5), Some(137)),
    ("router-solicitation", Some(10), Some(133)),
    ("router-advertisement", Some(9), Some(134)),
    ("neighbor-solicitation", None, Some(135)),
    ("neighbor-advertisement", None, Some(136)),
    ("listener-query", None, Some(130)),
    ("listener-report", None, Some(131)),
    ("listener-done", None, Some(132)),
    ("timestamp-request", Some(13), None),
    ("timestamp-reply", Some(14), None),
];

impl FromStr for IcmpType {
    type Err = Invalid;

    /// Reads a name, or a number, which is a type in both ICMP and ICMPv6.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        if let Some((_, icmp, icmpv6)) = TYPES.iter().find(|(name, ..)| *name == text) {
            return Ok(Self {
                icmp: *icmp,
                icmpv6: *icmpv6,
            });
        }
        let number = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse().ok().filter(|_| number) {
            Some(number) => Ok(Self {
                icmp: Some(number),
                icmpv6: Some(number),
            }),
            None => Err(invalid!(
                "'{text}' is not an ICMP type: write one of {}, or a number from 0 to 255",
                TYPES.map(|(name, ..)| name).join(", ")
            )),
        }
    }
}

impl fmt::Display for IcmpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = |(_, icmp, icmpv6): &&(&str, _, _)| (*icmp, *icmpv6) == (self.icmp, self.icmpv6);
        match (TYPES.iter().find(is), self.icmp) {
            (Some((name, ..)), _) => f.write_str(name),
            (None, number) => write!(f, "{}", number.unwrap_or_default()),
        }
    }
}

impl Numbers for IcmpType {
    fn ranges(&self) -> Vec<rules::Range> {
        let above = |number: u8| u16::from(number) + u16::try_from(OF_ICMPV6).unwrap_or(u16::MAX);
        let of = [self.icmp.map(u16::from), self.icmpv6.map(above)];
        let of = of.into_iter().flatten();
        of.map(|number| rules::Range::new(number, number)).collect()
    }
}

/// A destination: a prefix, or a list by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Destination {
    /// The addresses of a prefix.
    Prefix(IpNet),
    /// The list of this name.
    List(String),
}

impl FromStr for Destination {
    type Err = Invalid;

    /// Reads a prefix if the text is one, and the name of a list otherwise. Names of lists may have dots, but no slash
    /// and no colon.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = match lists::prefix(text) {
            Ok(prefix) => return Ok(Self::Prefix(prefix)),
            Err(wrong) => wrong,
        };
        if names::name(text).is_ok() {
            return Ok(Self::List(text.to_owned()));
        }
        let only_prefixes = text.contains(['/', ':']);
        Err(if only_prefixes {
            wrong
        } else {
            invalid!(
                "'{}' is neither a prefix nor the name of a list: write a prefix as in 192.0.2.0/24, or a name under [lists]",
                text.escape_debug()
            )
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(prefix) => f.write_str(&lists::show(prefix)),
            Self::List(name) => f.write_str(name),
        }
    }
}

/// Bytes, written in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hex(pub Vec<u8>);

impl FromStr for Hex {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let digits = text.chars().filter(|c| !c.is_whitespace());
        let digits: Option<Vec<_>> = digits.map(|c| c.to_digit(16)).collect();
        match digits.unwrap_or_default().as_chunks() {
            (pairs, []) if (1..=PATTERN_MAX).contains(&pairs.len()) => {
                let byte = |[high, low]: &[u32; 2]| u8::try_from(high << 4 | low);
                Ok(Self(
                    pairs.iter().map_while(|pair| byte(pair).ok()).collect(),
                ))
            }
            _ => Err(invalid!(
                "'{text}' is not 1 to {PATTERN_MAX} bytes: write two hexadecimal digits for each, as in ff ff 54"
            )),
        }
    }
}

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<_> = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        f.write_str(&bytes.join(" "))
    }
}

/// Bytes behind the UDP or TCP header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Offset of the first byte.
    pub offset: u8,
    /// The bytes.
    pub bytes: Hex,
    /// The bits of them that are compared; `None`: all.
    pub mask: Option<Hex>,
}

impl Payload {
    /// The greatest offset.
    pub const OFFSET_MAX: usize = PAYLOAD_MAX - PATTERN_MAX;

    /// The pattern for the kernel program.
    pub fn compile(&self) -> Pattern {
        let word = |bytes: &[u8]| {
            let mut word = [0; PATTERN_MAX];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        };
        let length = self.bytes.0.len();
        let whole = vec![u8::MAX; length];
        let mask = word(self.mask.as_ref().map_or(&whole, |mask| &mask.0));
        Pattern {
            mask,
            bits: word(&self.bytes.0) & mask,
            offset: self.offset.into(),
            end: u32::from(self.offset) + u32::try_from(length).unwrap_or(0),
        }
    }
}

as_text!(Dscp, IcmpType, Destination, Hex);
