//! Expected verdicts: etherparse reads the frame header by header, and the documented rules, written again, give the
//! verdict.
//!
//! Lengths in the IP header do not count, only the bytes in the frame: if a driver has joined packets (TSO), those
//! lengths mean nothing.

use std::net::{IpAddr, Ipv4Addr};

use etherparse::{
    ArpPacketSlice, EtherType, Ethernet2Slice, IpAuthHeaderSlice, Ipv4HeaderSlice,
    Ipv6FragmentHeaderSlice, Ipv6HeaderSlice, Ipv6RawExtHeaderSlice, SingleVlanSlice,
    TcpHeaderSlice, UdpHeaderSlice, ip_number,
};
use limiter_common::{policy::verdict::Reason, table::key::SourceKey};

use super::configurations::{Configuration, listed};
use crate::model::packet::Field;

/// The expected result.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// Reasons and buckets are known.
    Exactly(Outcome),
    /// The other parser cannot tell everything: the source, and the possible reasons of the first packet.
    From(IpAddr, Vec<Reason>),
}

/// Result for two equal packets at the same time.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Reasons of the first packet, and of the second.
    pub reasons: [Reason; 2],
    /// The buckets that the packets need.
    pub buckets: Vec<SourceKey>,
    /// Slot of the limit that refuses the second packet.
    pub refused_by: Option<u32>,
}

/// Fields of an IP packet.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The source.
    pub source: IpAddr,
    /// Transport protocol.
    pub protocol: Field<u8>,
    /// Source and destination port.
    pub ports: Field<(u16, u16)>,
    /// TCP flags.
    pub flags: Field<u8>,
    /// Whether the packet is a fragment of a datagram.
    pub fragment: Field<bool>,
    /// Neighbour discovery, DHCP or ARP.
    pub control: bool,
}

/// Result of reading the bytes after the IP header.
enum Behind {
    /// The visible fields.
    Clear(Seen),
    /// An invalid header that no limit needs to read.
    Unclear,
}

impl Outcome {
    fn simply(reason: Reason) -> Expected {
        Expected::Exactly(Self {
            reasons: [reason; 2],
            buckets: Vec::new(),
            refused_by: None,
        })
    }
}

/// The expected result for a frame.
pub(super) fn expect(frame: &[u8], configuration: &Configuration) -> Expected {
    let Ok(ethernet) = Ethernet2Slice::from_slice_without_fcs(frame) else {
        return Outcome::simply(Reason::NotIp);
    };
    let (mut ether_type, mut rest) = (ethernet.ether_type(), ethernet.payload_slice());
    let tags = [EtherType::VLAN_TAGGED_FRAME, EtherType::PROVIDER_BRIDGING];
    for number in 1.. {
        if !tags.contains(&ether_type) {
            break;
        }
        // The program reads no ninth tag, even if malformed packets pass.
        if number > 8 {
            return Outcome::simply(Reason::Malformed);
        }
        let Ok(tag) = SingleVlanSlice::from_slice(rest) else {
            return malformed(configuration);
        };
        (ether_type, rest) = (tag.ether_type(), tag.payload_slice());
    }
    match ether_type {
        EtherType::IPV4 => ipv4(rest, configuration),
        EtherType::IPV6 => ipv6(rest, configuration),
        EtherType::ARP if configuration.control => arp(rest, configuration),
        _ => Outcome::simply(Reason::NotIp),
    }
}

/// The result for a malformed packet.
fn malformed(configuration: &Configuration) -> Expected {
    Outcome::simply(if configuration.text.contains("malformed = \"pass\"") {
        Reason::MalformedPassed
    } else {
        Reason::Malformed
    })
}

/// A packet of which only the source is visible.
fn plain(source: IpAddr) -> Seen {
    Seen {
        source,
        protocol: Field::Unseen,
        ports: Field::Unseen,
        flags: Field::Unseen,
        fragment: Field::Unseen,
        control: false,
    }
}

fn arp(rest: &[u8], configuration: &Configuration) -> Expected {
    let Ok(packet) = ArpPacketSlice::from_slice(rest) else {
        // The sender's address may still be complete.
        return if rest.len() < 18 {
            Outcome::simply(Reason::NotIp)
        } else {
            let source = Ipv4Addr::new(rest[14], rest[15], rest[16], rest[17]);
            Expected::From(source.into(), vec![Reason::Admitted])
        };
    };
    // Addresses of other lengths are at other offsets; they do not occur in practice.
    let usual = packet.hw_addr_size() == 6 && packet.proto_addr_size() == 4;
    let sender: Ipv4Addr = match <[u8; 4]>::try_from(packet.sender_protocol_addr()) {
        Ok(sender) if usual => sender.into(),
        _ if rest.len() < 18 => return Outcome::simply(Reason::NotIp),
        _ => Ipv4Addr::new(rest[14], rest[15], rest[16], rest[17]),
    };
    judge(
        &Seen {
            control: true,
            ..plain(sender.into())
        },
        configuration,
    )
}

fn ipv4(rest: &[u8], configuration: &Configuration) -> Expected {
    let Ok(header) = Ipv4HeaderSlice::from_slice(rest) else {
        return malformed(configuration);
    };
    let source = header.source_addr().into();
    if !configuration.looks {
        return judge(&plain(source), configuration);
    }
    let seen = Seen {
        protocol: Field::Is(header.protocol().0),
        fragment: Field::Is(header.is_fragmenting_payload()),
        ..plain(source)
    };
    let later = header.fragments_offset().value() > 0;
    let behind = transport(seen, &rest[header.slice().len()..], later, [67, 68]);
    conclude(behind, source, configuration)
}

fn ipv6(rest: &[u8], configuration: &Configuration) -> Expected {
    let Ok(header) = Ipv6HeaderSlice::from_slice(rest) else {
        return malformed(configuration);
    };
    let source = header.source_addr().into();
    if !configuration.looks {
        return judge(&plain(source), configuration);
    }
    let behind = walk(&header, &rest[header.slice().len()..]);
    conclude(behind, source, configuration)
}

/// Walks along the extension headers.
fn walk(header: &Ipv6HeaderSlice<'_>, rest: &[u8]) -> Behind {
    const EXTENSIONS_MAX: u32 = 8;
    let (mut next, mut rest) = (header.next_header(), rest);
    let mut seen = plain(header.source_addr().into());
    let mut fragment = false;
    // Extension headers that Linux skips. Mobility, HIP and shim6 are upper-layer headers for Linux.
    let is_extension = |next| {
        let of_linux = [
            ip_number::IPV6_HOP_BY_HOP,
            ip_number::IPV6_ROUTE,
            ip_number::IPV6_FRAG,
            ip_number::AUTH,
            ip_number::IPV6_DEST_OPTIONS,
        ];
        of_linux.contains(&next)
    };
    let mut walked = 0;
    while is_extension(next) {
        if walked == EXTENSIONS_MAX || rest.len() < 8 {
            return Behind::Clear(seen);
        }
        walked += 1;
        let length;
        if next == ip_number::IPV6_FRAG {
            let Ok(header) = Ipv6FragmentHeaderSlice::from_slice(rest) else {
                return Behind::Clear(seen);
            };
            fragment |= header.is_fragmenting_payload();
            if fragment {
                seen.fragment = Field::Is(true);
            }
            (next, length) = (header.next_header(), header.slice().len());
            // The protocol is that of the first fragment's header.
            if header.fragment_offset().value() > 0 {
                return Behind::Clear(seen);
            }
        } else if next == ip_number::AUTH {
            let Ok(extension) = IpAuthHeaderSlice::from_slice(rest) else {
                return Behind::Unclear;
            };
            (next, length) = (extension.next_header(), extension.slice().len());
        } else {
            let Ok(extension) = Ipv6RawExtHeaderSlice::from_slice(rest) else {
                return Behind::Unclear;
            };
            (next, length) = (extension.next_header(), extension.slice().len());
        }
        rest = &rest[length..];
    }
    seen.protocol = Field::Is(next.0);
    seen.fragment = Field::Is(fragment);
    // Neighbour discovery is valid from a neighbour only.
    seen.control = next == ip_number::IPV6_ICMP
        && header.hop_limit() == 255
        && matches!(rest.first(), Some(133..=137));
    transport(seen, rest, false, [546, 547])
}

/// Reads ports and flags. UDP to one of the ports `dhcp` is control traffic.
fn transport(mut seen: Seen, rest: &[u8], later: bool, dhcp: [u16; 2]) -> Behind {
    let Field::Is(protocol) = seen.protocol else {
        return Behind::Clear(seen);
    };
    if protocol != 6 {
        seen.flags = Field::None;
    }
    // DCCP, SCTP and UDP-Lite begin with two ports as well; etherparse does not read them.
    if ![6, 17, 33, 132, 136].contains(&protocol) {
        seen.ports = Field::None;
        return Behind::Clear(seen);
    }
    if later {
        return Behind::Clear(seen);
    }
    if let [a, b, c, d, ..] = rest {
        let port = |high: &u8, low: &u8| u16::from_be_bytes([*high, *low]);
        seen.ports = Field::Is((port(a, b), port(c, d)));
    }
    match protocol {
        6 => match TcpHeaderSlice::from_slice(rest) {
            Ok(header) => {
                let flags = [
                    header.fin(),
                    header.syn(),
                    header.rst(),
                    header.psh(),
                    header.ack(),
                    header.urg(),
                    header.ece(),
                    header.cwr(),
                ];
                let bits = (0..).zip(flags).map(|(bit, set)| u8::from(set) << bit);
                seen.flags = Field::Is(bits.sum());
                seen.ports = Field::Is((header.source_port(), header.destination_port()));
            }
            // The header is cut before the flags.
            Err(_) if rest.len() < 14 => {}
            Err(_) => return Behind::Unclear,
        },
        17 => match UdpHeaderSlice::from_slice(rest) {
            Ok(header) => {
                seen.ports = Field::Is((header.source_port(), header.destination_port()));
                seen.control = dhcp.contains(&header.destination_port());
            }
            Err(_) if rest.len() < 4 => {}
            Err(_) => return Behind::Unclear,
        },
        _ => {}
    }
    Behind::Clear(seen)
}

fn conclude(behind: Behind, source: IpAddr, configuration: &Configuration) -> Expected {
    match behind {
        Behind::Clear(seen) => judge(&seen, configuration),
        Behind::Unclear => {
            let mut possible = match listed(configuration.text, source) {
                Some(true) => vec![Reason::Deny],
                Some(false) => vec![Reason::Allowed],
                None => vec![Reason::Admitted, Reason::Unlimited],
            };
            // Or the packet is control traffic, which is not looked up on lists.
            if configuration.control {
                possible.push(Reason::Admitted);
            }
            Expected::From(source, possible)
        }
    }
}

/// The verdict of lists and limits.
fn judge(seen: &Seen, configuration: &Configuration) -> Expected {
    let Configuration {
        limits, control, ..
    } = configuration;
    let is_control = *control && seen.control;
    let port = match seen.ports {
        Field::Is((_, to)) => to,
        _ => 0,
    };
    if is_control {
        let last_two = (0..).zip(*limits).skip(limits.len() - 2);
        return Expected::Exactly(Outcome {
            reasons: [Reason::Admitted; 2],
            buckets: last_two
                .map(|(slot, limit)| limit.key(slot, seen.source, 0))
                .collect(),
            refused_by: None,
        });
    }
    match listed(configuration.text, seen.source) {
        Some(true) => return Outcome::simply(Reason::Deny),
        Some(false) => return Outcome::simply(Reason::Allowed),
        None => {}
    }
    let holding = (0..).zip(*limits).filter(|(_, limit)| (limit.holds)(seen));
    let buckets: Vec<_> = holding
        .map(|(slot, limit)| limit.key(slot, seen.source, port))
        .collect();
    let Some(first) = buckets.first() else {
        return Outcome::simply(Reason::Unlimited);
    };
    Expected::Exactly(Outcome {
        reasons: [Reason::Admitted, Reason::Limit],
        refused_by: Some(first.slot()),
        buckets,
    })
}
