//! `--key`: the parts of a packet that select its bucket.

mod show;
mod text;

use std::net::IpAddr;

use limiter_common::table::{
    Seed,
    key::{
        Address, BY_DESTINATION, BY_FLOW, BY_PAIR, DESTINATION_PORT, IPV4, KeyMask, NO_NUMBER,
        SourceKey, VLAN, Words, leading_ones,
    },
    nat64::Nat64,
    pair,
};
use serde::{Deserialize, Serialize};

use super::{Direction, nat64::bits};

/// The parts that packets must have in common to share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key {
    /// The addresses.
    pub parts: Parts,
    /// True if each destination port has its own bucket. False for flows, which have the port anyway.
    pub by_port: bool,
    /// True if each VLAN has its own bucket. Not together with `by_port`.
    pub by_vlan: bool,
}

/// The addresses that select a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// No part: one bucket for all packets.
    Interface,
    /// One bucket for each prefix of the source.
    Source(Bits),
    /// One bucket for each prefix of the destination.
    Destination(Bits),
    /// One bucket for each prefix of the source with each prefix of the destination.
    Pair(Bits, Bits),
    /// One bucket for packets of the same addresses, protocol and ports.
    Flow,
}

/// Lengths of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Bits of an IPv4 address, 0 to 32.
    pub ipv4: u8,
    /// Bits of an IPv6 address, 0 to 128.
    pub ipv6: u8,
}

impl Bits {
    /// A whole IPv4 address; an IPv6 /64, the usual assignment to one host.
    pub const OF_HOSTS: Self = Self { ipv4: 32, ipv6: 64 };
    /// Whole addresses.
    pub const WHOLE: Self = Self {
        ipv4: 32,
        ipv6: 128,
    };

    fn mask(self, nat64: &Nat64) -> KeyMask {
        let mut mask = KeyMask::prefixes(self.ipv4.into(), self.ipv6.into());
        let named = (1..nat64.prefixes.len()).take(nat64.length.saturating_sub(1) as usize);
        for index in named {
            mask.nat64[index] = leading_ones(bits(nat64, index, self.ipv4).into());
        }
        mask
    }
}

/// The fields of a packet that keys can have.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The source.
    pub source: IpAddr,
    /// The destination, of the same IP version.
    pub destination: IpAddr,
    /// Number of the protocol.
    pub protocol: u8,
    /// The source port; 0 if the protocol has none.
    pub source_port: u16,
    /// The destination port; 0 if the protocol has none.
    pub destination_port: u16,
    /// The VLAN; 0 if the packet has none.
    pub vlan: u16,
}

impl Default for Key {
    fn default() -> Self {
        Self {
            parts: Parts::Source(Bits::OF_HOSTS),
            by_port: false,
            by_vlan: false,
        }
    }
}

impl Key {
    /// The key of a limit that names none: the peer's address.
    pub fn of_peers(direction: Direction) -> Self {
        match direction {
            Direction::In => Self::default(),
            Direction::Out => Self {
                parts: Parts::Destination(Bits::OF_HOSTS),
                by_port: false,
                by_vlan: false,
            },
        }
    }

    /// One bucket for all packets.
    pub const INTERFACE: Self = Self {
        parts: Parts::Interface,
        by_port: false,
        by_vlan: false,
    };

    /// Returns true if all packets share one bucket.
    pub fn is_single(&self) -> bool {
        *self == Self::INTERFACE
    }

    /// Returns true if the destination has no part in the key.
    pub fn is_by_source(&self) -> bool {
        matches!(self.parts, Parts::Interface | Parts::Source(_))
    }

    /// Returns true if sources of both versions of IP have buckets of their own, or their networks have.
    pub fn separates_sources(&self) -> bool {
        match self.parts {
            Parts::Interface | Parts::Destination(_) => false,
            Parts::Source(source) | Parts::Pair(source, _) => source.ipv4 > 0 && source.ipv6 > 0,
            Parts::Flow => true,
        }
    }

    /// Returns true if source and destination are parts of the key.
    pub fn has_both(&self) -> bool {
        matches!(self.parts, Parts::Pair { .. } | Parts::Flow)
    }

    /// The masks that the program applies. `nat64`: [`super::Settings::translators`].
    pub fn mask(&self, nat64: &Nat64) -> KeyMask {
        let pair = |source: Bits, destination: Bits| {
            let destination_mask = destination.mask(nat64);
            KeyMask {
                by: BY_PAIR,
                destination_ipv4: destination_mask.ipv4,
                destination_ipv6: destination_mask.ipv6,
                ..source.mask(nat64)
            }
        };
        let masks = match self.parts {
            Parts::Interface => KeyMask::interface(),
            Parts::Source(bits) => bits.mask(nat64),
            // Link-local destinations are addresses of this host.
            Parts::Destination(bits) => KeyMask {
                by: BY_DESTINATION,
                link_local: 0,
                ..bits.mask(nat64)
            },
            Parts::Pair(source, destination) => pair(source, destination),
            Parts::Flow => KeyMask {
                by: BY_FLOW,
                ..pair(Bits::WHOLE, Bits::WHOLE)
            },
        };
        KeyMask {
            port: match (self.by_port, self.by_vlan) {
                (true, _) => DESTINATION_PORT,
                (false, true) => VLAN,
                (false, false) => NO_NUMBER,
            },
            ..masks
        }
    }

    /// The key of packets from `address` to `port` under the limit in `slot`, if it [is by source](Self::is_by_source).
    pub fn of(&self, slot: u32, address: IpAddr, port: u16) -> SourceKey {
        let nat64 = &Nat64::WELL_KNOWN;
        self.mask(nat64)
            .key(slot, &self::address(address), port, nat64)
    }

    /// The key of a packet under the limit in `slot`. `seed` is that of the table.
    pub fn of_packet(&self, slot: u32, packet: &Packet, seed: &Seed, nat64: &Nat64) -> SourceKey {
        let mask = self.mask(nat64);
        let (source, destination) = (address(packet.source), address(packet.destination));
        let port = packet.destination_port;
        let number = if self.by_vlan { packet.vlan } else { port };
        let flow = match self.parts {
            Parts::Interface | Parts::Source(_) => return mask.key(slot, &source, number, nat64),
            Parts::Destination(_) => return mask.key(slot, &destination, number, nat64),
            Parts::Pair { .. } => 0,
            Parts::Flow => pair::flow(
                packet.protocol.into(),
                packet.source_port.into(),
                port.into(),
            ),
        };
        let words = pair::words(&mask, &source, &destination, flow, seed, nat64);
        SourceKey::of_pair(words, slot, mask.port_of(number))
    }

    /// Returns true if a key of two IPv4 addresses is of packets from `source`.
    pub fn is_from(&self, key: &SourceKey, source: IpAddr) -> bool {
        let nat64 = &Nat64::WELL_KNOWN;
        let (family, words) = self.mask(nat64).masked(&address(source), nat64);
        let from = pair::addresses(key.address()).map(|(from, ..)| Address::ipv4(from).words);
        self.has_both() && family == IPV4 && from == Some(words)
    }
}

/// An address as the program reads it from a packet.
pub fn address(address: IpAddr) -> Address {
    match address {
        IpAddr::V4(v4) => Address::ipv4(u32::from_ne_bytes(v4.octets())),
        IpAddr::V6(v6) => {
            let octets = v6.octets();
            Address::ipv6(
                [0, 8].map(|start| u64::from_ne_bytes(std::array::from_fn(|i| octets[start + i]))),
            )
        }
    }
}

/// An address's bytes, in the order of a packet.
pub fn octets(words: Words) -> [u8; 16] {
    std::array::from_fn(|i| words[i / 8].to_ne_bytes()[i % 8])
}

/// The address of this family with these words.
pub fn ip(family: u32, words: Words) -> IpAddr {
    let bytes @ [a, b, c, d, ..] = octets(words);
    match family {
        IPV4 => [a, b, c, d].into(),
        _ => bytes.into(),
    }
}
