//! Reads and writes keys as text: `/24,/48`, `source + destination/32,/64`, `flow`.

use std::fmt;

use super::{Bits, Key};
use crate::Parts;
use crate::{Invalid, Text, as_text, invalid};

/// The part of a key with a bucket for each destination port, behind a comma or a plus sign.
const PORT: &str = "destination_port";
/// The part of a key with a bucket for each VLAN.
const VLAN: &str = "vlan";

impl Text for Key {
    fn read(text: &str) -> Result<Self, Invalid> {
        let (of_addresses, number) = match text.rsplit_once([',', '+']) {
            Some((parts, number)) if [PORT, VLAN].contains(&number.trim_start()) => {
                (parts.trim_end(), number.trim_start())
            }
            _ => (text, ""),
        };
        let (by_port, by_vlan) = (number == PORT, number == VLAN);
        let ends_with = |number: &str| {
            of_addresses
                .rsplit([',', '+'])
                .next()
                .is_some_and(|part| part.trim() == number)
        };
        if !number.is_empty() && (ends_with(PORT) || ends_with(VLAN)) {
            return Err(invalid!(
                "'{text}' names port and VLAN, or one of them twice, and a key has room for one: write two limits, or flow,{VLAN}"
            ));
        }
        match parts(of_addresses) {
            Some(Parts::Flow) if by_port => Err(invalid!(
                "'{text}' names the port twice, because a flow has its ports: write flow"
            )),
            Some(parts) => Ok(Self {
                parts,
                by_port,
                by_vlan,
            }),
            None => Err(invalid!(
                "'{text}' is not a key: write lengths as in /32,/64 (at most /32 for IPv4, /128 for IPv6), interface, destination/24,/48, source + destination, or flow; ,{PORT} or ,{VLAN} may follow"
            )),
        }
    }

    fn shown(&self) -> String {
        let addresses = match self.parts {
            Parts::Interface => "interface".to_owned(),
            Parts::Source(bits) => bits.to_string(),
            Parts::Destination(bits) => format!("destination{}", unless(bits, Bits::WHOLE)),
            Parts::Pair(source, destination) => {
                let source = unless(source, Bits::OF_HOSTS);
                let destination = unless(destination, Bits::WHOLE);
                format!("source{source} + destination{destination}")
            }
            Parts::Flow => "flow".to_owned(),
        };
        let number = match (self.by_port, self.by_vlan) {
            (true, _) => PORT,
            (false, true) => VLAN,
            (false, false) => return addresses,
        };
        match self.is_by_source() {
            true => format!("{addresses},{number}"),
            false => format!("{addresses} + {number}"),
        }
    }
}

fn parts(text: &str) -> Option<Parts> {
    if let Some((source, destination)) = text.split_once('+') {
        let source = bits(source.trim_end().strip_prefix("source")?, Bits::OF_HOSTS)?;
        let destination = destination.trim_start().strip_prefix("destination")?;
        return Some(Parts::Pair(source, bits(destination, Bits::WHOLE)?));
    }
    if let Some(destination) = text.strip_prefix("destination") {
        return Some(Parts::Destination(bits(destination, Bits::WHOLE)?));
    }
    if let Some(source) = text.strip_prefix("source") {
        return Some(Parts::Source(bits(source, Bits::OF_HOSTS)?));
    }
    match text {
        "interface" => Some(Parts::Interface),
        "flow" => Some(Parts::Flow),
        // Without a name, both lengths are needed.
        _ if text.contains(',') => Some(Parts::Source(bits(text, Bits::OF_HOSTS)?)),
        _ => None,
    }
}

/// Lengths as in `/24,/48`. Those that are not written are those of `or`.
fn bits(text: &str, or: Bits) -> Option<Bits> {
    if text.is_empty() {
        return Some(or);
    }
    let (ipv4, ipv6) = match text.split_once(',') {
        Some((ipv4, ipv6)) => (ipv4, Some(ipv6)),
        None => (text, None),
    };
    Some(Bits {
        ipv4: length(ipv4, 32)?,
        ipv6: ipv6.map_or(Some(or.ipv6), |ipv6| length(ipv6, 128))?,
    })
}

fn length(text: &str, most: u8) -> Option<u8> {
    let digits = text.strip_prefix('/')?;
    let bits = digits.parse().ok().filter(|bits| *bits <= most);
    bits.filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The lengths, unless they are those of `or`.
fn unless(bits: Bits, or: Bits) -> String {
    let written = Some(bits).filter(|bits| *bits != or);
    written.map_or_else(String::new, |bits| bits.to_string())
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{},/{}", self.ipv4, self.ipv6)
    }
}

as_text!(Key);
