//! The values of a match: protocols, ports, TCP flags, versions of IP.

use limiter_common::{abi::rules, policy::protocols::IpProto};
use serde::{Deserialize, Serialize};

use super::names;
use crate::{Invalid, Text, as_text, ensure, invalid};

/// Number of a transport protocol, as assigned by IANA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Protocol(pub u8);

impl Protocol {
    /// ICMP.
    pub const ICMP: Self = Self(IpProto::Icmp as u8);
    /// TCP.
    pub const TCP: Self = Self(IpProto::Tcp as u8);
    /// UDP.
    pub const UDP: Self = Self(IpProto::Udp as u8);
    /// ICMPv6.
    pub const ICMPV6: Self = Self(IpProto::Ipv6Icmp as u8);

    /// Returns true if the protocol's header begins with two ports.
    pub fn has_ports(self) -> bool {
        use IpProto::{Dccp, Sctp, Tcp, Udp, UdpLite};
        let with_ports = [Tcp, Udp, Dccp, Sctp, UdpLite];
        with_ports.iter().any(|protocol| *protocol as u8 == self.0)
    }
}

impl Text for Protocol {
    const IS_NUMBER: bool = true;

    fn read(text: &str) -> Result<Self, Invalid> {
        let number = names::number("protocol", text).or_else(|| text.parse().ok());
        number.map(Self).ok_or_else(|| {
            let names = names::listed("protocol");
            invalid!(
                "'{text}' is not a known protocol: write one of {names}, or a number from 0 to 255"
            )
        })
    }

    fn shown(&self) -> String {
        let name = names::name("protocol", self.0.into());
        name.map_or_else(|| self.0.to_string(), str::to_owned)
    }
}

/// A range of ports, or one port.
pub type PortRange = Range<{ u16::MAX as u32 }, false>;

/// Lengths of IP packets in bytes, up to the longest of IPv6. Those above 65,535 count as that.
pub type Lengths = Range<{ 40 + u16::MAX as u32 }, true>;

/// VLANs.
pub type Vlan = Range<0xfff, false>;

/// Values of TTL or hop limit.
pub type Ttl = Range<{ u8::MAX as u32 }, true>;

/// Values of a field, as the kernel program compares them.
pub trait Numbers {
    /// The ranges of the values.
    fn ranges(&self) -> Vec<rules::Range>;
}

impl<const MOST: u32, const OPEN: bool> Numbers for Range<MOST, OPEN> {
    fn ranges(&self) -> Vec<rules::Range> {
        let number = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        vec![rules::Range::new(number(self.first), number(self.last))]
    }
}

/// A range of numbers up to `MOST`, including both ends. If it may be `OPEN`, `1200-` means 1200 and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Range<const MOST: u32, const OPEN: bool> {
    /// The lowest number.
    pub first: u32,
    /// The highest number; equal to `first` for one number.
    pub last: u32,
}

impl PortRange {
    /// The ports from `first` to `last`.
    pub fn new(first: u16, last: u16) -> Self {
        let [first, last] = [first, last].map(u32::from);
        Self { first, last }
    }
}

impl<const MOST: u32, const OPEN: bool> Range<MOST, OPEN> {
    /// True for [`PortRange`], whose values may be the names of services.
    const ARE_PORTS: bool = MOST == u16::MAX as u32;
}

impl<const MOST: u32, const OPEN: bool> Text for Range<MOST, OPEN> {
    const IS_NUMBER: bool = true;

    fn read(text: &str) -> Result<Self, Invalid> {
        if let Some(port) = names::port(text).filter(|_| Self::ARE_PORTS) {
            let (first, last) = (port, port);
            return Ok(Self { first, last });
        }
        let number = |digits: &str| {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.parse().ok().filter(|number| *number <= MOST);
            number.filter(|_| is_number)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let last = match last {
            "" if OPEN && !first.is_empty() => Some(MOST),
            last => number(last),
        };
        let Some((first, last)) = number(first).zip(last) else {
            let example = match OPEN {
                true => "0-100 or 1200-",
                false if Self::ARE_PORTS => "5300-5353, or a service as in https",
                false => "5300-5353",
            };
            return Err(invalid!(
                "'{text}' is not a number from 0 to {MOST}: write one, or a range as in {example}"
            ));
        };
        ensure!(
            first <= last,
            "'{text}' is a range that ends before it begins: write {last}-{first}"
        );
        Ok(Self { first, last })
    }

    fn shown(&self) -> String {
        match (self.first, self.last) {
            (first, last) if first == last => first.to_string(),
            (first, last) if OPEN && last == MOST => format!("{first}-"),
            (first, last) => format!("{first}-{last}"),
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

/// The flags that distinguish segments that open, continue and end a connection. So `syn` alone means a segment that
/// opens one.
const BY_DEFAULT: u8 = 1 | 2 | 4 | 16;

fn flags(text: &str) -> Result<u8, Invalid> {
    text.split(',').try_fold(0, |bits, name| {
        let bit = names::number("flag", name).ok_or_else(|| {
            let names = names::listed("flag");
            invalid!("'{name}' is not a TCP flag: write some of {names}, as in syn or syn,ack")
        })?;
        Ok(bits | bit)
    })
}

/// Names of the flags in `bits`.
pub fn flag_names(bits: u8) -> Vec<&'static str> {
    let set = names::all("flag").filter(|(_, [bit, _])| bits & bit.unwrap_or(0) != 0);
    set.map(|(name, _)| name).collect()
}

impl Text for TcpFlags {
    /// Reads `syn`: syn is set, and ack, fin and rst are not. With `syn/syn`: syn is set, and the others may be.
    fn read(text: &str) -> Result<Self, Invalid> {
        let (set, looked_at) = match text.split_once('/') {
            None => {
                let set = flags(text)?;
                (set, set | BY_DEFAULT)
            }
            Some(("", looked_at)) => (0, flags(looked_at)?),
            Some((set, looked_at)) => (flags(set)?, flags(looked_at)?),
        };
        ensure!(
            set & !looked_at == 0,
            "'{text}' requires flags that it does not compare: name them after the slash too, as in syn/syn,ack"
        );
        Ok(Self { set, looked_at })
    }

    fn shown(&self) -> String {
        let set = flag_names(self.set).join(",");
        if self.set != 0 && self.looked_at == self.set | BY_DEFAULT {
            set
        } else {
            format!("{set}/{}", flag_names(self.looked_at).join(","))
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

impl Text for IpVersion {
    const IS_NUMBER: bool = true;

    fn read(text: &str) -> Result<Self, Invalid> {
        match text {
            "4" => Ok(Self::V4),
            "6" => Ok(Self::V6),
            _ => Err(invalid!("{text} is not a version of IP: write 4 or 6")),
        }
    }

    fn shown(&self) -> String {
        if *self == Self::V4 { "4" } else { "6" }.to_owned()
    }
}

as_text!(Protocol, TcpFlags, IpVersion);
as_text!([const MOST: u32, const OPEN: bool] Range<MOST, OPEN>);
