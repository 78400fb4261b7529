//! The buckets that a command asks for: their keys in the table.

use std::net::{IpAddr, Ipv4Addr};

use clap::Args;
use limiter_common::table::{Seed, key::SourceKey, nat64::Nat64};
use limiter_config::{
    Direction, Invalid, Key, Parts, Protocol, invalid, key::Packet, lists::address,
    matches::PortRange, names::direction_of,
};
use limiter_kernel::program::Tables;
use serde::{Deserialize, Serialize};

// The packets whose buckets are asked for, and the options for them. No doc comment: clap would make it the help of the
// verb.
#[expect(missing_docs, reason = "see above")]
#[derive(Clone, Copy, Debug, Args, Serialize, Deserialize)]
pub struct Query {
    /// The source.
    #[arg(skip = Ipv4Addr::UNSPECIFIED)]
    pub source: IpAddr,
    /// Destination of the packets, for limits whose key has it
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "address")]
    pub to: Option<IpAddr>,
    /// Destination port of the packets, for limits whose key has it
    #[arg(long, value_name = "PORT", requires = "address", value_parser = port)]
    pub port: Option<u16>,
    /// VLAN of the packets, 0 for untagged ones, for limits whose key has it
    #[arg(long, value_name = "ID", requires = "address", value_parser = clap::value_parser!(u16).range(..0x1000))]
    pub vlan: Option<u16>,
    /// Source port of the packets, for limits on flows
    #[arg(long, value_name = "PORT", requires = "address", value_parser = port)]
    pub from_port: Option<u16>,
    /// Protocol of the packets as in udp, for limits on flows
    #[arg(long, value_name = "NAME", requires = "address")]
    pub protocol: Option<Protocol>,
}

/// Reads a port, by number or the name of a service.
fn port(text: &str) -> Result<u16, Invalid> {
    let PortRange { first, last } = text.parse()?;
    match u16::try_from(first) {
        Ok(port) if first == last => Ok(port),
        _ => Err(invalid!("'{text}' is not one port: write one, as in 443")),
    }
}

impl Query {
    /// The packets of a source.
    pub fn about(source: IpAddr) -> Self {
        Self {
            source,
            to: None,
            port: None,
            vlan: None,
            from_port: None,
            protocol: None,
        }
    }

    /// The packets from `source` with these options.
    pub fn from(self, source: IpAddr) -> Result<Self, Invalid> {
        let is_other_version = |destination: &IpAddr| destination.is_ipv4() != source.is_ipv4();
        if let Some(destination) = self.to.filter(is_other_version) {
            return Err(invalid!(
                "no packet goes from {source} to {destination}: write an IPv{} address after --to",
                if source.is_ipv4() { 4 } else { 6 }
            ));
        }
        Ok(Self { source, ..self })
    }

    /// The packets under the attachment called `name`. Of those that an interface sends, an address alone is the
    /// destination.
    pub fn under(mut self, name: &str) -> Self {
        if direction_of(name).1 == Direction::Out {
            self.to = self.to.or(Some(self.source));
        }
        self
    }

    /// Returns true if more than the source is given.
    pub fn names_more(&self) -> bool {
        self.to.is_some()
            || self.port.is_some()
            || self.vlan.is_some()
            || self.from_port.is_some()
            || self.protocol.is_some()
    }

    /// The options of `check` and `reset` that this key needs and that are not given.
    pub fn missing(&self, key: &Key) -> Vec<&'static str> {
        let is_flow = key.parts == Parts::Flow;
        let has_ports = is_flow && self.protocol.is_none_or(Protocol::has_ports);
        [
            ("--to", !key.is_by_source() && self.to.is_none()),
            ("--port", has_ports && self.port.is_none()),
            ("--from-port", has_ports && self.from_port.is_none()),
            ("--protocol", is_flow && self.protocol.is_none()),
        ]
        .into_iter()
        .filter_map(|(option, is_missing)| is_missing.then_some(option))
        .collect()
    }

    /// The key of the packet's bucket under one limit.
    pub fn key(&self, key: &Key, slot: u32, seed: &Seed, nat64: &Nat64) -> SourceKey {
        key.of_packet(slot, &self.packet(), seed, nat64)
    }

    /// The keys of the buckets under one limit, if nothing is [missing](Self::missing): one, or one for each port or VLAN in
    /// the table if none is given. If there is no such port, the key of port 0, which has no bucket.
    pub fn keys(&self, key: &Key, slot: u32, tables: &Tables, nat64: &Nat64) -> Vec<SourceKey> {
        let first = self.key(key, slot, &tables.sets.seed, nat64);
        let has_any = key.by_port && self.port.is_none() || key.by_vlan && self.vlan.is_none();
        if !has_any {
            return vec![first];
        }
        let without_port = |key: &SourceKey| (key.slot(), key.family(), key.address());
        let all = tables.sets.sources().map(|(entry, _)| entry);
        let mut of_ports: Vec<_> = all
            .filter(|entry| without_port(entry) == without_port(&first))
            .collect();
        of_ports.sort_by_key(SourceKey::port);
        if of_ports.is_empty() {
            of_ports.push(first);
        }
        of_ports
    }

    fn packet(&self) -> Packet {
        let protocol = self.protocol.unwrap_or(Protocol(0));
        let port = |port: Option<u16>| port.unwrap_or(0);
        let (source_port, destination_port) = match self.protocol {
            // Keys of such packets have port 0.
            Some(protocol) if !protocol.has_ports() => (0, 0),
            _ => (port(self.from_port), port(self.port)),
        };
        Packet {
            source: self.source,
            destination: self.to.unwrap_or(self.source),
            protocol: protocol.0,
            source_port,
            destination_port,
            vlan: self.vlan.unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_a_key_needs_are_named() {
        let source = IpAddr::from([192, 0, 2, 7]);
        let nothing = Query::about(source);
        let with_destination = Query {
            to: Some(source),
            ..nothing
        };
        let icmp = Query {
            protocol: Some(Protocol(1)),
            ..with_destination
        };
        let udp = Query {
            protocol: Some(Protocol(17)),
            port: Some(53),
            ..with_destination
        };
        let whole = Query {
            from_port: Some(4_000),
            ..udp
        };
        for (key, query, missing) in [
            ("/32,/64,destination_port", nothing, ""),
            ("/32,/64,vlan", nothing, ""),
            ("interface", nothing, ""),
            ("destination", nothing, "--to"),
            ("source + destination + destination_port", nothing, "--to"),
            ("source + destination", with_destination, ""),
            ("flow", nothing, "--to --port --from-port --protocol"),
            ("flow", icmp, ""),
            ("flow", udp, "--from-port"),
            ("flow", whole, ""),
        ] {
            let key: Key = key.parse().unwrap();
            assert_eq!(query.missing(&key).join(" "), missing, "{key}, {query:?}");
        }
    }
}
