//! The values of a match: DSCP, ICMP types, destinations, bytes of the payload.

use ipnet::IpNet;
use limiter_common::abi::rules::{self, OF_ICMPV6, PATTERN_MAX, PAYLOAD_MAX, Pattern};
use serde::{Deserialize, Serialize};

use super::{
    names,
    values::{Numbers, Range},
};
use crate::{Invalid, Text, as_text, invalid, lists, names::name};

/// DSCP values: a name, a number, or a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Dscp(pub Range<63, false>);

impl Text for Dscp {
    const IS_NUMBER: bool = true;

    fn read(text: &str) -> Result<Self, Invalid> {
        if let Some(code) = names::number("dscp", text) {
            let (first, last) = (code.into(), code.into());
            return Ok(Self(Range { first, last }));
        }
        text.parse().map(Self).map_err(|_| {
            invalid!("'{text}' is not a DSCP: write a name as in ef, af41 or cs1, a number from 0 to 63, or a range as in 8-15")
        })
    }

    fn shown(&self) -> String {
        let Range { first, last } = self.0;
        match names::name("dscp", first) {
            Some(name) if first == last => name.to_owned(),
            _ => self.0.to_string(),
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

impl Text for IcmpType {
    const IS_NUMBER: bool = true;

    /// Reads a name, or a number, which is a type in both ICMP and ICMPv6.
    fn read(text: &str) -> Result<Self, Invalid> {
        let number = || text.parse::<u8>().ok().filter(|_| !text.starts_with('+'));
        let numbers = names::numbers("icmp_type", text).or_else(|| Some([Some(number()?); 2]));
        let [icmp, icmpv6] = numbers.ok_or_else(|| {
            let names = names::listed("icmp_type");
            invalid!(
                "'{text}' is not an ICMP type: write one of {names}, or a number from 0 to 255"
            )
        })?;
        Ok(Self { icmp, icmpv6 })
    }

    fn shown(&self) -> String {
        let mut named = names::all("icmp_type");
        match named.find(|(_, numbers)| *numbers == [self.icmp, self.icmpv6]) {
            Some((name, _)) => name.to_owned(),
            None => self.icmp.unwrap_or_default().to_string(),
        }
    }
}

impl Numbers for IcmpType {
    fn ranges(&self) -> Vec<rules::Range> {
        let above = |number: u8| u16::from(number) + u16::try_from(OF_ICMPV6).unwrap_or(u16::MAX);
        let numbers = [self.icmp.map(u16::from), self.icmpv6.map(above)];
        let numbers = numbers.into_iter().flatten();
        numbers
            .map(|number| rules::Range::new(number, number))
            .collect()
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

impl Text for Destination {
    const IS_NUMBER: bool = true;

    /// Reads a prefix if the text is one, and the name of a list otherwise. Names of lists may have dots, but no slash
    /// and no colon.
    fn read(text: &str) -> Result<Self, Invalid> {
        let wrong = match lists::prefix(text) {
            Ok(prefix) => return Ok(Self::Prefix(prefix)),
            Err(wrong) => wrong,
        };
        if name(text).is_ok() {
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

    fn shown(&self) -> String {
        match self {
            Self::Prefix(prefix) => lists::show(prefix),
            Self::List(name) => name.clone(),
        }
    }
}

/// Bytes, written in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hex(pub Vec<u8>);

impl Text for Hex {
    fn read(text: &str) -> Result<Self, Invalid> {
        let digits = text.chars().filter(|c| !c.is_whitespace());
        let digits: Option<Vec<_>> = digits.map(|c| c.to_digit(16)).collect();
        match digits.unwrap_or_default().as_chunks() {
            (pairs, []) if (1..=PATTERN_MAX).contains(&pairs.len()) => {
                let byte = |[high, low]: &[u32; 2]| u8::try_from(high << 4 | low);
                let bytes = pairs.iter().map_while(|pair| byte(pair).ok());
                Ok(Self(bytes.collect()))
            }
            _ => Err(invalid!(
                "'{text}' is not 1 to {PATTERN_MAX} bytes: write two hexadecimal digits for each, as in ff ff 54"
            )),
        }
    }

    fn shown(&self) -> String {
        let bytes: Vec<_> = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.join(" ")
    }
}

crate::keys! {
    /// Bytes behind the UDP or TCP header.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Payload("payload", "in payload = { ... } in match") {
        /// Offset of the first byte behind the UDP or TCP header, from 0 (default) to 56.
        offset: u8, shown, "a number as in 0";
        /// Up to 8 bytes in hexadecimal, as in `"ff ff ff ff 54"`.
        bytes: Hex = Hex(vec![0]), required, r#"bytes as in "ff ff 54""#;
        /// Bits of them that are compared, in hexadecimal. Default: all.
        mask: Option<Hex>, r#"bytes as in "ff ff 54""#;
    }
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
