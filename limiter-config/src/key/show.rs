//! The keys of buckets as text: `192.0.2.7`, `192.0.2.7 -> 198.51.100.9`.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use limiter_common::table::{
    key::{IPV4, SourceKey, is_link_local},
    nat64::Nat64,
    pair,
};

use super::{Bits, Key, ip};
use crate::Parts;
use crate::{Protocol, nat64};

impl Key {
    /// A key as text: `192.0.2.7`, `2001:db8::/64`, `interface`; `-> 198.51.100.9` for a destination,
    /// `192.0.2.7 -> 198.51.100.9` for a pair, `tcp 192.0.2.7:4000 -> 198.51.100.9:443` for a flow. If the port is part
    /// of the key, it follows, as in `192.0.2.7 port 53`; so does the VLAN, as in `192.0.2.7 vlan 20`. Of pairs and flows of IPv6, the key has only a hash:
    /// `flow #0123456789abcdef`.
    pub fn show(&self, key: &SourceKey, nat64: &Nat64) -> String {
        let source = self.show_source(key, nat64);
        match (self.by_port, self.by_vlan, key.port()) {
            (true, _, port) => format!("{source} port {port}"),
            (false, true, 0) => format!("{source} untagged"),
            (false, true, vlan) => format!("{source} vlan {vlan}"),
            (false, false, _) => source,
        }
    }

    /// [`Self::show`] without the port and the VLAN.
    pub fn show_source(&self, key: &SourceKey, nat64: &Nat64) -> String {
        match (self.parts, pair::addresses(key.address())) {
            (Parts::Interface, _) => "interface".to_owned(),
            (Parts::Source(bits), _) => prefix(self.prefix(key, bits, nat64)),
            (Parts::Destination(bits), _) => {
                format!("-> {}", prefix(self.prefix(key, bits, nat64)))
            }
            (Parts::Pair { .. }, None) => format!("pair #{:016x}", key.first),
            (Parts::Pair(source, destination), Some((from, into, _))) => {
                let from = prefix((ipv4(from).into(), source.ipv4));
                let into = prefix((ipv4(into).into(), destination.ipv4));
                format!("{from} -> {into}")
            }
            (Parts::Flow, None) => format!("flow #{:016x}", key.first),
            (Parts::Flow, Some((from, into, flow))) => show_flow(ipv4(from), ipv4(into), flow),
        }
    }

    /// The sources that share the bucket; `None` if all do, or if the key does not say.
    pub fn network(&self, key: &SourceKey, nat64: &Nat64) -> Option<IpNet> {
        let (address, bits) = match self.parts {
            Parts::Interface | Parts::Destination(_) => return None,
            Parts::Source(bits) => self.prefix(key, bits, nat64),
            Parts::Pair(source, _) => (source_of(key)?, source.ipv4),
            Parts::Flow => (source_of(key)?, Bits::WHOLE.ipv4),
        };
        IpNet::new(address, bits).ok()
    }

    /// The prefix of a key of one address.
    fn prefix(&self, key: &SourceKey, Bits { ipv4, ipv6 }: Bits, nat64: &Nat64) -> (IpAddr, u8) {
        let (family, words) = (key.family(), key.address());
        let bits = match family {
            IPV4 => ipv4,
            _ if self.mask(nat64).link_local != 0 && is_link_local(&words) => 128,
            _ => match nat64.find(&words) {
                Some(index) => nat64::bits(nat64, index, ipv4),
                None => ipv6,
            },
        };
        (ip(family, words), bits)
    }
}

fn source_of(key: &SourceKey) -> Option<IpAddr> {
    let (from, ..) = pair::addresses(key.address())?;
    Some(ipv4(from).into())
}

/// An address of [`pair::addresses`].
fn ipv4(address: u32) -> Ipv4Addr {
    Ipv4Addr::from(address.to_ne_bytes())
}

fn prefix((address, bits): (IpAddr, u8)) -> String {
    if bits == if address.is_ipv4() { 32 } else { 128 } {
        address.to_string()
    } else {
        format!("{address}/{bits}")
    }
}

fn show_flow(from: Ipv4Addr, into: Ipv4Addr, flow: u64) -> String {
    // The fields of `pair::flow`.
    let [a, b, c, d, _, _, protocol, _] = flow.to_be_bytes();
    let protocol = Protocol(protocol);
    if !protocol.has_ports() {
        return format!("{protocol} {from} -> {into}");
    }
    let [from_port, port] = [[a, b], [c, d]].map(u16::from_be_bytes);
    format!("{protocol} {from}:{from_port} -> {into}:{port}")
}
