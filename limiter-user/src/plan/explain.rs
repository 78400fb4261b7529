//! Explains one packet: the limits that match it, and whether it would pass now. Asks the policy, with the lists, bans and
//! buckets that are in force.

use std::{collections::BTreeMap, net::IpAddr};

use anyhow::Result;
use etherparse::{IpNumber, PacketBuilder};
use ipnet::IpNet;
use limiter_common::{
    abi::rules::ON_BAN,
    policy::{of_lists, verdict::Reason},
};
use limiter_config::{
    Limit, Match, Protocol,
    lists::THROTTLED,
    matches::{TcpFlags, flag_names},
};
use limiter_kernel::{Attachment, sys::clock};

use super::{
    capture::{Frame, Link},
    replay::model::Model,
};
use crate::observe::{ExplainedPacket, Query, readers};

/// The most sets of a model that holds the buckets of one packet.
const SETS: u32 = 1_024;
/// SYN, in the order of the header's bits.
const SYN: u8 = 2;

/// A packet as the options of `check` describe it.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The addresses, the ports and the VLAN.
    pub query: Query,
    /// The protocol.
    pub protocol: Protocol,
    /// The flags of a TCP segment. Without them, it is a SYN.
    pub flags: Option<TcpFlags>,
}

/// Explains a packet that belongs to no connection of the host.
pub fn explain(attachment: &Attachment, packet: &Packet) -> Result<ExplainedPacket> {
    let record = &attachment.record;
    let limits = record.with_slots();
    let listed = listed(attachment, packet.query.source, clock::now()?)?;
    // Lists and bans decide before limits and exemptions.
    let meets_limits = of_lists(listed.lists).is_none();
    let exempt = record.settings.exempt.established && packet.protocol.has_ports();
    let mut explained = ExplainedPacket {
        packet: packet.text(),
        exempts_established: exempt && meets_limits,
        missing: match meets_limits {
            true => packet.missing_in(limits.iter().map(|(limit, _)| limit)),
            false => Vec::new(),
        },
        ..ExplainedPacket::default()
    };
    if !explained.missing.is_empty() {
        return Ok(explained);
    }
    let (mut model, now) = (model(attachment, &packet.query)?, clock::now()?);
    let frame = packet.frame();
    let reason = model.offer(&frame.bytes, frame.length, now);
    let matching = model.matching();
    let (mut is_new, mut has_bucket) = (false, true);
    for ((index, reader), (limit, _)) in (0..).zip(readers(attachment)?).zip(&limits) {
        if matching >> index & 1 == 0 {
            explained.other_limits.push(limit.name.clone());
            continue;
        }
        explained.limits.push(limit.name.clone());
        has_bucket &= packet.query.missing(&limit.key).is_empty();
        let nat64 = record.settings.translators();
        let sets = &attachment.tables.sets;
        let key = packet
            .query
            .key(&limit.key, reader.slot, &sets.seed, &nat64);
        is_new |= sets.source(&key).is_none();
    }
    if !has_bucket {
        let matched = limits
            .iter()
            .filter(|(limit, _)| explained.limits.contains(&limit.name));
        let mut missing: Vec<_> = matched
            .flat_map(|(limit, _)| packet.query.missing(&limit.key))
            .collect();
        missing.sort_unstable();
        missing.dedup();
        explained.missing = missing;
        return Ok(explained);
    }
    let (why, slot) = model.details(reason);
    let decides = limits
        .iter()
        .find(|(_, of_limit)| Some(of_limit.number) == slot);
    explained.passes = Some(reason.passes());
    explained.reason = Some(why.name().to_owned());
    explained.text = Some(why.text().to_owned());
    explained.limit = decides.map(|(limit, _)| limit.name.clone());
    explained.new_source = is_new && reason == Reason::Admitted;
    Ok(explained)
}

/// A model with the lists, bans and buckets that a packet meets.
fn model(attachment: &Attachment, query: &Query) -> Result<Model> {
    let (record, sets) = (&attachment.record, &attachment.tables.sets);
    let mut config = record.config()?;
    config.seed = sets.seed;
    config.sets = config.sets.min(SETS);
    // Lists and bans may have changed since the constants were made.
    (config.lists_ipv4, config.lists_ipv6, config.fast_path) = (1, 1, 0);
    let now = clock::now()?;
    let mut prefixes = BTreeMap::new();
    for address in [Some(query.source), query.to].into_iter().flatten() {
        prefixes.insert(IpNet::from(address), listed(attachment, address, now)?);
    }
    let mut model = Model::new(config, &prefixes, now);
    let nat64 = record.settings.translators();
    for reader in readers(attachment)? {
        model.set_scale(reader.slot, attachment.tables.scale(reader.slot)?);
        let key = query.key(&reader.limit.key, reader.slot, &sets.seed, &nat64);
        if let Some(bucket) = sets.source(&key) {
            model.put(&key, reader.tat(&bucket), reader.epoch, now);
        }
    }
    Ok(model)
}

/// The lists that decide about an address, among them its ban.
fn listed(
    attachment: &Attachment,
    address: IpAddr,
    now: u64,
) -> Result<limiter_common::abi::Listed> {
    let mut listed = attachment.lists.of(address)?;
    let bans = &attachment.bans;
    if bans.of(address, listed.allowed, now)?.is_some() {
        listed.lists |= ON_BAN;
    }
    if let Some(bit) = attachment.record.tiers.of(THROTTLED)
        && bans.throttles(address, listed.allowed, now)?
    {
        listed.lists |= 1 << bit;
    }
    Ok(listed)
}

impl Packet {
    /// The flags that are set.
    fn flags(&self) -> u8 {
        self.flags.map_or(SYN, |flags| flags.set)
    }

    fn is_tcp(&self) -> bool {
        self.protocol.to_string() == "tcp"
    }

    /// The packet in words: `tcp 192.0.2.7 to port 443, syn`.
    fn text(&self) -> String {
        let query = &self.query;
        let part = |word: &str, port: Option<u16>| port.map(|port| format!(" {word} {port}"));
        let destination = (query.to).map(|address| format!(" to {address}"));
        let parts = [
            part("from port", query.from_port),
            destination,
            part("to port", query.port),
            (query.vlan).map(|vlan| format!(" in VLAN {vlan}")),
            (self.is_tcp()).then(|| format!(", {}", flag_names(self.flags()).join(","))),
        ];
        let parts: String = parts.into_iter().flatten().collect();
        format!("{}{parts}", self.protocol)
    }

    /// The options that are not given, and that decide which limits match the packet.
    fn missing_in<'a>(&self, limits: impl Iterator<Item = &'a Limit>) -> Vec<&'static str> {
        let matches: Vec<_> = limits
            .flat_map(|limit| {
                let matches = &limit.matches;
                [Some(matches), matches.not.as_deref()]
                    .into_iter()
                    .flatten()
            })
            .filter(|matches| {
                matches
                    .protocol
                    .is_none_or(|protocol| protocol == self.protocol)
            })
            .collect();
        let any = |field: fn(&Match) -> bool| matches.iter().any(|matches| field(matches));
        let (query, has_ports) = (&self.query, self.protocol.has_ports());
        let options = [
            (
                "--from-port",
                has_ports && query.from_port.is_none() && any(|m| !m.source_port.is_empty()),
            ),
            (
                "--port",
                has_ports && query.port.is_none() && any(|m| !m.destination_port.is_empty()),
            ),
            (
                "--to",
                query.to.is_none() && any(|m| !m.destination.is_empty()),
            ),
            (
                "--vlan",
                query.vlan.is_none() && any(|m| !m.vlan.is_empty()),
            ),
        ];
        let missing = options.into_iter().filter(|(_, is_missing)| *is_missing);
        missing.map(|(option, _)| option).collect()
    }

    /// The shortest packet of this kind: without payload, and of ICMP an echo request.
    fn frame(&self) -> Frame {
        let query = &self.query;
        let octets = |address| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        let destination = query.to.unwrap_or(query.source);
        let packet = match (query.source, destination) {
            (IpAddr::V4(from), IpAddr::V4(destination)) => {
                PacketBuilder::ipv4(from.octets(), destination.octets(), 64)
            }
            (from, destination) => PacketBuilder::ipv6(octets(from), octets(destination), 64),
        };
        let [from_port, port] = [query.from_port, query.port].map(|port| port.unwrap_or(0));
        let mut bytes = Vec::new();
        // Writing to memory does not fail.
        let _ = match &*self.protocol.to_string() {
            "tcp" => {
                let mut segment = packet.tcp(from_port, port, 1, u16::MAX);
                for name in flag_names(self.flags()) {
                    segment = match name {
                        "fin" => segment.fin(),
                        "syn" => segment.syn(),
                        "rst" => segment.rst(),
                        "psh" => segment.psh(),
                        "ack" => segment.ack(1),
                        "urg" => segment.urg(0),
                        "ece" => segment.ece(),
                        _ => segment.cwr(),
                    };
                }
                segment.write(&mut bytes, &[])
            }
            "udp" => packet.udp(from_port, port).write(&mut bytes, &[]),
            "icmp" => packet.icmpv4_echo_request(1, 1).write(&mut bytes, &[]),
            "icmpv6" => packet.icmpv6_echo_request(1, 1).write(&mut bytes, &[]),
            _ => {
                let ports = [from_port.to_be_bytes(), port.to_be_bytes()].concat();
                let header = [&ports[..], &[0; 16]].concat();
                packet.write(&mut bytes, IpNumber(self.protocol.0), &header)
            }
        };
        let mut frame = Link::Raw.frame(&bytes, bytes.len() as u64);
        if let Some(vlan) = query.vlan.filter(|vlan| *vlan != 0) {
            // A tag goes between the addresses and the type of the frame.
            let [high, low] = vlan.to_be_bytes();
            frame.bytes.splice(12..12, [0x81, 0x00, high, low]);
            frame.length += 4;
        }
        frame
    }
}
