//! The policy reads each hand-made frame as the fields written beside it.

use std::net::{Ipv4Addr, Ipv6Addr};

use limiter_common::{
    abi::{
        Constants,
        rules::{
            ANY, ANYWHERE, CONTROL_BANNED, CONTROL_LINK, CONTROL_NEAR, CONTROL_ROUTING,
            FIRST_FRAGMENT, LATER_FRAGMENT, NEEDS_BFD, NEEDS_CONTROL, NEEDS_DESTINATION,
            NEEDS_HEADER, NEEDS_OSPF, NEEDS_TRANSPORT, NEEDS_VRRP, NONE, OF_ICMPV6, WHOLE,
        },
    },
    pod::Pod as _,
    policy::{
        self, Bytes, PacketInfo, Parsed, control, parse,
        payload::{self, Payload},
        related,
    },
    table::key::{self, Address},
};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// Protocols with two ports in their first four bytes.
const WITH_PORTS: [u8; 5] = [TCP, UDP, 33, 132, 136];
const HOP_BY_HOP: u8 = 0;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const EXTENSIONS: [u8; 5] = [HOP_BY_HOP, 43, FRAGMENT, AUTHENTICATION, DESTINATION];

/// A transport header with ports 4660 and 22136, and the TCP flags 0xa5.
const TRANSPORT: [u8; 14] = [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0xa5];

fn source_v4() -> Address {
    Address::ipv4(u32::from_ne_bytes(Ipv4Addr::new(192, 0, 2, 7).octets()))
}

const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6);

fn source_v6() -> Address {
    let octets = SOURCE_V6.octets();
    let word = |half: &[u8]| u64::from_ne_bytes(half.try_into().expect("eight bytes"));
    Address::ipv6([word(&octets[..8]), word(&octets[8..])])
}

/// A frame with these EtherTypes. All except the last are VLAN tags.
fn ethernet(types: &[u16], payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for (index, kind) in types.iter().enumerate() {
        if index > 0 {
            frame.extend([0x20, 0x7b]);
        }
        frame.extend(kind.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

/// A packet with a header of `words` 32-bit words. Words beyond five are options.
fn ipv4(words: u8, fragment: u16, protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x11; usize::from(words) * 4];
    packet[0] = 0x40 | words;
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&[192, 0, 2, 7]);
    packet.extend(transport);
    packet
}

fn ipv6(next: u8, hop_limit: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x11; 40];
    (packet[0], packet[6], packet[7]) = (0x60, next, hop_limit);
    packet[8..24].copy_from_slice(&SOURCE_V6.octets());
    packet.extend(rest);
    packet
}

/// An extension header of `kind`, with this length field, before `next`.
fn extension(kind: u8, length: u8, next: u8) -> Vec<u8> {
    let size = match kind {
        FRAGMENT => 8,
        AUTHENTICATION => 4 * (usize::from(length) + 2),
        _ => 8 * (usize::from(length) + 1),
    };
    let mut header = vec![0; size.max(8)];
    (header[0], header[1]) = (next, length);
    header
}

/// The fragment header of RFC 8200, section 4.5, with this field of offset and flags.
fn fragment(field: u16, next: u8) -> Vec<u8> {
    let [upper, lower] = field.to_be_bytes();
    // The second byte is reserved. It is not a length.
    vec![next, 0xff, upper, lower, 0, 0, 0, 1]
}

trait Fields {
    /// The fields of a packet that is at its IP header; none if it has no source.
    fn info<B: Bytes>(&self, packet: &mut B, needs: u32) -> Option<PacketInfo>;
}

impl Fields for Parsed {
    fn info<B: Bytes>(&self, packet: &mut B, needs: u32) -> Option<PacketInfo> {
        let mut info = PacketInfo::of(self.source()?);
        self.read(packet, needs, &mut info);
        Some(info)
    }
}

fn info(parsed: Parsed, mut packet: &[u8]) -> PacketInfo {
    parsed.info(&mut packet, NEEDS_TRANSPORT).expect("a source")
}

fn info_v4(packet: &[u8]) -> PacketInfo {
    info(Parsed::Ipv4(source_v4()), packet)
}

fn info_v6(packet: &[u8]) -> PacketInfo {
    info(Parsed::Ipv6(source_v6()), packet)
}

/// The info of a packet of `protocol` that carries [`TRANSPORT`].
fn carrying(source: Address, protocol: u8) -> PacketInfo {
    let has_ports = WITH_PORTS.contains(&protocol);
    PacketInfo {
        protocol: protocol.into(),
        source_port: if has_ports { 0x1234 } else { NONE },
        destination_port: if has_ports { 0x5678 } else { NONE },
        flags: if protocol == TCP { 0xa5 } else { NONE },
        fragment: WHOLE,
        control: 0,
        // Both length fields are 0x1111. In IPv6, the field does not include the header.
        length: if source == source_v4() {
            0x1111
        } else {
            40 + 0x1111
        },
        ..PacketInfo::of(source)
    }
}

/// The info of [`carrying`], with unreadable ports and flags if the protocol has any.
fn without_ports(source: Address, protocol: u8) -> PacketInfo {
    let unseen = |value| if value == NONE { NONE } else { ANY };
    let seen = carrying(source, protocol);
    PacketInfo {
        source_port: unseen(seen.source_port),
        destination_port: unseen(seen.destination_port),
        flags: unseen(seen.flags),
        ..seen
    }
}

/// A later fragment of IPv4.
fn later(protocol: u8) -> PacketInfo {
    PacketInfo {
        fragment: LATER_FRAGMENT,
        ..without_ports(source_v4(), protocol)
    }
}

/// The info of an IPv6 packet of which only the position in the datagram is known.
fn unseen(fragment: u32) -> PacketInfo {
    PacketInfo {
        fragment,
        length: 40 + 0x1111,
        ..PacketInfo::of(source_v6())
    }
}

#[test]
fn up_to_eight_vlan_tags_are_parsed() {
    let packet = ipv4(5, 0, ICMP, &[]);
    for tags in [
        &[][..],
        &[VLAN],
        &[SERVICE_VLAN],
        &[SERVICE_VLAN, VLAN],
        &[VLAN, VLAN],
        &[
            SERVICE_VLAN,
            VLAN,
            VLAN,
            VLAN,
            SERVICE_VLAN,
            VLAN,
            VLAN,
            VLAN,
        ],
    ] {
        let frame = ethernet(&[tags, &[IPV4]].concat(), &packet);
        let mut rest = frame.as_slice();
        assert_eq!(parse(&mut rest), Parsed::Ipv4(source_v4()), "{tags:x?}");
        assert_eq!(rest, packet, "{tags:x?}");
        for missing in 1..=4_usize {
            // The frame ends within the EtherType after the last tag, or within the packet.
            let cut = &frame[..frame.len() - packet.len() - missing];
            let wanted = if tags.is_empty() {
                Parsed::NotIp
            } else {
                Parsed::Malformed
            };
            assert_eq!(parse(&mut { cut }), wanted, "{tags:x?} without {missing}");
        }
    }
    for tags in 9..12 {
        let types = [vec![VLAN; tags], vec![IPV4]].concat();
        let frame = ethernet(&types, &packet);
        assert_eq!(parse(&mut &frame[..]), Parsed::TooManyTags, "{tags}");
    }
    for kind in [0, 0x0801, 0x8101, 0x88cc, 0xffff] {
        let frame = ethernet(&[kind], &packet);
        assert_eq!(parse(&mut &frame[..]), Parsed::NotIp, "{kind:x}");
    }
}

#[test]
fn ipv4_packet_shorter_than_its_header_length_is_malformed() {
    for first in 0..=u8::MAX {
        let (version, words) = (first >> 4, first & 0xf);
        for length in 0..=64 {
            let mut packet = ipv4(16, 0, ICMP, &[])[..length].to_vec();
            if let Some(byte) = packet.first_mut() {
                *byte = first;
            }
            let is_sound = version == 4 && words >= 5 && length >= usize::from(words) * 4;
            let wanted = if is_sound {
                Parsed::Ipv4(source_v4())
            } else {
                Parsed::Malformed
            };
            let frame = ethernet(&[IPV4], &packet);
            assert_eq!(parse(&mut &frame[..]), wanted, "{first:#x}, {length} bytes");
        }
    }
}

#[test]
fn ipv6_packet_shorter_than_forty_bytes_is_malformed() {
    for first in 0..=u8::MAX {
        for length in [0, 1, 39, 40, 41] {
            let mut packet = ipv6(ICMPV6, 1, &[0])[..length].to_vec();
            if let Some(byte) = packet.first_mut() {
                *byte = first;
            }
            let wanted = if first >> 4 == 6 && length >= 40 {
                Parsed::Ipv6(source_v6())
            } else {
                Parsed::Malformed
            };
            let frame = ethernet(&[IPV6], &packet);
            assert_eq!(parse(&mut &frame[..]), wanted, "{first:#x}, {length} bytes");
        }
    }
}

#[test]
fn source_of_an_arp_packet_is_its_sender_address() {
    let mut packet = vec![0x11; 28];
    packet[14..18].copy_from_slice(&[192, 0, 2, 7]);
    let frame = ethernet(&[ARP], &packet);
    let parsed = parse(&mut &frame[..]);
    assert_eq!(parsed, Parsed::Arp(source_v4()));
    assert_eq!(parse(&mut &frame[..32]), Parsed::Arp(source_v4()));
    assert_eq!(parse(&mut &frame[..31]), Parsed::NotIp);
}

#[test]
fn ports_and_flags_are_parsed_for_every_protocol() {
    for protocol in 0..=u8::MAX {
        for words in 5..=15 {
            let packet = ipv4(words, 0, protocol, &TRANSPORT);
            let wanted = carrying(source_v4(), protocol);
            assert_eq!(info_v4(&packet), wanted, "{protocol}, {words} words");
        }
        if !EXTENSIONS.contains(&protocol) {
            let packet = ipv6(protocol, 64, &TRANSPORT);
            let wanted = carrying(source_v6(), protocol);
            assert_eq!(info_v6(&packet), wanted, "{protocol}");
        }
    }
    let port = |protocol| carrying(source_v4(), protocol).key_port();
    assert_eq!((port(UDP), port(ICMP)), (0x5678, 0));
}

#[test]
fn fields_of_a_truncated_packet_are_unknown() {
    for protocol in WITH_PORTS {
        for length in 0..=TRANSPORT.len() {
            let seen = &TRANSPORT[..length];
            for (source, seen) in [
                (source_v4(), info_v4(&ipv4(6, 0, protocol, seen))),
                (source_v6(), info_v6(&ipv6(protocol, 64, seen))),
            ] {
                let (whole, cut) = (carrying(source, protocol), without_ports(source, protocol));
                let with_ports = PacketInfo {
                    flags: cut.flags,
                    ..whole
                };
                let wanted = match length {
                    14 => whole,
                    4.. => with_ports,
                    _ => cut,
                };
                assert_eq!(seen, wanted, "{protocol}, {length}");
            }
        }
    }
    assert_eq!(info_v4(&[0x45; 19]), PacketInfo::of(source_v4()));
    assert_eq!(info_v6(&[0x60; 39]), PacketInfo::of(source_v6()));
    // The transport header is not read if no limit matches on it.
    let whole = ipv4(5, 0, TCP, &TRANSPORT);
    let read = Parsed::Ipv4(source_v4()).info(&mut whole.as_slice(), 0);
    assert_eq!(read, Some(PacketInfo::of(source_v4())));
}

#[test]
fn ipv4_fragment_position_is_parsed() {
    for bit in 0..16 {
        let field = 1 << bit;
        let whole = carrying(source_v4(), UDP);
        let wanted = match bit {
            // Bits 0 to 12 are the offset, 13 is "more fragments", 14 is "don't fragment", 15 is reserved.
            0..=12 => later(UDP),
            13 => PacketInfo {
                fragment: FIRST_FRAGMENT,
                ..whole
            },
            _ => whole,
        };
        let packet = ipv4(5, field, UDP, &TRANSPORT);
        assert_eq!(info_v4(&packet), wanted, "bit {bit}");
    }
    // A middle fragment has no transport header.
    for protocol in [ICMP, UDP, TCP] {
        let seen = info_v4(&ipv4(5, 0x2001, protocol, &[]));
        assert_eq!(seen, later(protocol));
    }
}

#[test]
fn ipv6_fragment_position_is_parsed() {
    let behind = |field, next, rest: &[u8]| {
        let rest = [&fragment(field, next)[..], rest].concat();
        info_v6(&ipv6(FRAGMENT, 64, &rest))
    };
    let whole = carrying(source_v6(), UDP);
    let first = PacketInfo {
        fragment: FIRST_FRAGMENT,
        ..whole
    };
    for bit in 0..16 {
        let wanted = match bit {
            0 => first,
            // Reserved.
            1 | 2 => whole,
            _ => unseen(LATER_FRAGMENT),
        };
        assert_eq!(behind(1 << bit, UDP, &TRANSPORT), wanted, "bit {bit}");
    }
    // The later fragment's protocol does not matter: the receiver goes by the first fragment.
    for next in [EXTENSIONS.as_slice(), &[TCP, UDP, ICMPV6, 59]].concat() {
        for field in [8, 9] {
            let seen = behind(field, next, &TRANSPORT);
            assert_eq!(seen, unseen(LATER_FRAGMENT), "{next}");
        }
    }
    // A second fragment header does not make a first fragment whole, or a later fragment a first one.
    let again = |field| [&fragment(field, UDP)[..], &TRANSPORT].concat();
    assert_eq!(behind(1, FRAGMENT, &again(0)), first);
    assert_eq!(behind(1, FRAGMENT, &again(8)), unseen(LATER_FRAGMENT));
    assert_eq!(behind(0, FRAGMENT, &again(1)), first);
    // The extension header continues in another fragment.
    let cut = behind(1, DESTINATION, &[UDP; 7]);
    assert_eq!(cut, unseen(FIRST_FRAGMENT));
}

#[test]
fn extension_headers_are_skipped_by_their_length() {
    let whole = carrying(source_v6(), TCP);
    for kind in EXTENSIONS {
        for length in [0, 1, 2, 3, 7, 64, 255] {
            let rest = [&extension(kind, length, TCP)[..], &TRANSPORT].concat();
            // The shortest authentication header has eight bytes too. Its length field is then 0.
            let packet = ipv6(kind, 64, &rest);
            assert_eq!(info_v6(&packet), whole, "{kind} of {length}");
            // With one byte less, the flags are missing.
            let cut = &packet[..packet.len() - 1];
            let wanted = PacketInfo {
                flags: ANY,
                ..whole
            };
            assert_eq!(info_v6(cut), wanted, "{kind} of {length}, cut");
        }
        let cut = info_v6(&ipv6(kind, 64, &[TCP; 7]));
        assert_eq!(cut, unseen(ANYWHERE), "{kind}");
    }
    // If the transport header is missing, the ports are unknown, unless the protocol has none.
    let beyond = |next| ipv6(DESTINATION, 255, &extension(DESTINATION, 9, next)[..8]);
    assert_eq!(info_v6(&beyond(UDP)), without_ports(source_v6(), UDP));
    let nothing = carrying(source_v6(), ICMPV6);
    assert_eq!(info_v6(&beyond(ICMPV6)), nothing);
}

#[test]
fn up_to_eight_extension_headers_are_parsed() {
    for count in 0..=9 {
        let mut rest = Vec::new();
        for left in (0..count).rev() {
            let next = if left == 0 { TCP } else { DESTINATION };
            rest.extend(extension(DESTINATION, 0, next));
        }
        rest.extend(TRANSPORT);
        let packet = ipv6(if count == 0 { TCP } else { DESTINATION }, 64, &rest);
        let wanted = if count <= 8 {
            carrying(source_v6(), TCP)
        } else {
            unseen(ANYWHERE)
        };
        assert_eq!(info_v6(&packet), wanted, "{count}");
    }
}

/// A transport header with the source port 4660 and this destination port.
fn to_port(port: u16) -> Vec<u8> {
    let mut transport = TRANSPORT.to_vec();
    transport[2..4].copy_from_slice(&port.to_be_bytes());
    transport
}

/// Control traffic that comes from the link alone.
const LINK: u32 = CONTROL_LINK | CONTROL_NEAR;

/// The kind of control traffic of a packet, if all kinds are exempt.
fn control(source: Address, packet: &[u8]) -> u32 {
    control_of(source, packet, control::NEEDS)
}

/// The kind of control traffic of a packet, if these kinds are exempt.
fn control_of(source: Address, packet: &[u8], needs: u32) -> u32 {
    let parsed = match source.family {
        key::IPV4 => Parsed::Ipv4(source),
        _ => Parsed::Ipv6(source),
    };
    let mut message = packet;
    let info = parsed
        .info(&mut message, NEEDS_TRANSPORT)
        .expect("a source");
    let constants = Constants {
        needs,
        ..Constants::NONE
    };
    let kind = control::recognise([&packet, &packet, &message], &info, &constants) & 0xff;
    assert!(kind == 0 || control::may_be(&info), "{info:?}");
    kind
}

/// An IPv4 packet with this TTL and destination.
fn ipv4_to(protocol: u8, ttl: u8, destination: [u8; 4], transport: &[u8]) -> Vec<u8> {
    let mut packet = ipv4(5, 0, protocol, transport);
    packet[8] = ttl;
    packet[16..20].copy_from_slice(&destination);
    packet
}

/// An IPv6 packet to an address that begins with these bytes.
fn ipv6_to(protocol: u8, hop_limit: u8, destination: [u8; 2], transport: &[u8]) -> Vec<u8> {
    let mut packet = ipv6(protocol, hop_limit, transport);
    packet[24..26].copy_from_slice(&destination);
    packet
}

fn link_local() -> Address {
    let [first, rest] = [[0xfe, 0x80, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 7]];
    Address::ipv6([u64::from_ne_bytes(first), u64::from_ne_bytes(rest)])
}

const IGMP: u8 = 2;
const OSPF: u8 = 89;
const VRRP: u8 = 112;
const NOBODY_V4: Address = Address::ipv4(0);
const NOBODY_V6: Address = Address::ipv6([0; 2]);

#[test]
fn dhcp_is_control_traffic_that_lists_and_bans_decide_about_if_its_source_may_be_far() {
    let (request, reply) = (CONTROL_LINK, CONTROL_LINK | CONTROL_BANNED);
    for protocol in WITH_PORTS {
        for port in (60..=75).chain(540..=550) {
            let v4 = ipv4(5, 0, protocol, &to_port(port));
            let v6 = ipv6(protocol, 64, &to_port(port));
            for (source, packet, ports) in [
                (source_v4(), &v4, [67, 68]),
                (NOBODY_V4, &v4, [67, 68]),
                (source_v6(), &v6, [547, 546]),
                (link_local(), &v6, [547, 546]),
                (NOBODY_V6, &v6, [547, 546]),
            ] {
                let may_be_far = [source_v4(), source_v6()].contains(&source);
                let wanted = match ports.iter().position(|dhcp| *dhcp == port) {
                    _ if protocol != UDP => 0,
                    None => 0,
                    Some(_) if !may_be_far => LINK,
                    Some(0) => request,
                    Some(_) => reply,
                };
                assert_eq!(
                    control(source, packet),
                    wanted,
                    "{protocol} to {port} of {source:?}"
                );
            }
        }
    }
}

#[test]
fn messages_of_icmpv6_for_the_link_are_control_traffic_only_with_their_hop_limit() {
    for kind in 0..=u8::MAX {
        for hop_limit in [0, 1, 64, 254, 255] {
            // 59: no next header.
            for next in [ICMP, 59, ICMPV6] {
                let packet = ipv6(next, hop_limit, &[kind, 0]);
                for (source, is_near) in [
                    (source_v6(), false),
                    (link_local(), true),
                    (NOBODY_V6, true),
                ] {
                    // RFC 4890, sections 4.4.1 and 4.4.2.
                    let wanted = match (kind, hop_limit) {
                        _ if next != ICMPV6 => false,
                        (133..=137 | 141 | 142 | 148 | 149, 255) => true,
                        (130..=132 | 143 | 151..=153, 1) => is_near,
                        _ => false,
                    };
                    let seen = control(source, &packet);
                    assert_eq!(
                        seen,
                        if wanted { LINK } else { 0 },
                        "{next}: {kind}, {hop_limit} {source:?}"
                    );
                }
            }
        }
    }
    // The packet ends before the ICMPv6 type.
    assert_eq!(control(source_v6(), &ipv6(ICMPV6, 255, &[])), 0);
    // Behind an extension header too, but not in a later fragment.
    let behind = |kind, hop_limit, icmp, header: &[u8]| {
        control(
            link_local(),
            &ipv6(kind, hop_limit, &[header, &[icmp]].concat()),
        )
    };
    let options = extension(DESTINATION, 0, ICMPV6);
    assert_eq!(behind(DESTINATION, 255, 135, &options), LINK);
    // A query has a router alert.
    let alert = extension(HOP_BY_HOP, 0, ICMPV6);
    assert_eq!(behind(HOP_BY_HOP, 1, 130, &alert), LINK);
    assert_eq!(behind(FRAGMENT, 255, 135, &fragment(8, ICMPV6)), 0);
}

#[test]
fn igmp_is_control_traffic_only_to_a_group_with_ttl_1() {
    for ttl in [0, 1, 2, 64, 255] {
        for destination in [[224, 0, 0, 1], [239, 1, 2, 3], [192, 0, 2, 1], [255; 4]] {
            let packet = ipv4_to(IGMP, ttl, destination, &[0x11, 0, 0, 0]);
            let wanted = ttl == 1 && (224..240).contains(&destination[0]);
            assert_eq!(
                control(source_v4(), &packet),
                if wanted { LINK } else { 0 },
                "{ttl} {destination:?}"
            );
        }
    }
}

#[test]
fn routing_protocols_are_recognised_by_what_a_far_sender_cannot_make() {
    let routing = |wanted: bool| if wanted { CONTROL_ROUTING } else { 0 };
    for hops in [0, 1, 2, 64, 254, 255] {
        for (group_v4, group_v6) in [([224, 0, 0, 5], [0xff, 2]), ([192, 0, 2, 1], [0x20, 1])] {
            let v4 = |protocol, port| {
                control(
                    source_v4(),
                    &ipv4_to(protocol, hops, group_v4, &to_port(port)),
                )
            };
            let v6 = |source, protocol, port| {
                control(source, &ipv6_to(protocol, hops, group_v6, &to_port(port)))
            };
            let (near, is_group) = (hops == 255, group_v4[0] == 224);
            assert_eq!(v4(VRRP, 0), routing(near), "{hops}");
            assert_eq!(v6(source_v6(), VRRP, 0), routing(near), "{hops}");
            let is_ospf = near || hops == 1 || is_group;
            assert_eq!(v4(OSPF, 0), routing(is_ospf), "{hops} {group_v4:?}");
            let is_ospf = near || is_group;
            assert_eq!(
                v6(source_v6(), OSPF, 0),
                routing(is_ospf),
                "{hops} {group_v6:?}"
            );
            assert_eq!(v6(link_local(), OSPF, 0), CONTROL_ROUTING);
            // 4784 is BFD over several hops.
            for (port, is_bfd) in [(3_784, near), (6_784, near), (4_784, false), (3_785, false)] {
                assert_eq!(v4(UDP, port), routing(is_bfd), "{hops}, {port}");
                assert_eq!(
                    v6(source_v6(), UDP, port),
                    routing(is_bfd),
                    "{hops}, {port}"
                );
            }
        }
    }
}

#[test]
fn each_kind_of_control_traffic_is_exempt_by_its_own_bit() {
    let group = [224, 0, 0, 5];
    let packets = [
        (NEEDS_CONTROL, ipv4_to(IGMP, 1, group, &[])),
        (NEEDS_CONTROL, ipv4_to(UDP, 64, group, &to_port(67))),
        (NEEDS_VRRP, ipv4_to(VRRP, 255, group, &[])),
        (NEEDS_OSPF, ipv4_to(OSPF, 1, group, &[])),
        (NEEDS_BFD, ipv4_to(UDP, 255, group, &to_port(3_784))),
    ];
    for bit in [0, NEEDS_CONTROL, NEEDS_VRRP, NEEDS_OSPF, NEEDS_BFD] {
        for (own, packet) in &packets {
            let kind = control_of(source_v4(), packet, bit);
            assert_eq!(kind != 0, bit == *own, "{bit:#x} {packet:?}");
        }
    }
}

#[test]
fn arp_is_control_traffic() {
    let arp = info(Parsed::Arp(source_v4()), &[]);
    assert_eq!(arp.control, LINK);
    for parsed in [Parsed::NotIp, Parsed::Malformed, Parsed::TooManyTags] {
        assert_eq!(parsed.info(&mut &TRANSPORT[..], NEEDS_TRANSPORT), None);
    }
}

/// All fields that limits can use.
const ALL: u32 = NEEDS_TRANSPORT | NEEDS_HEADER | NEEDS_DESTINATION;

#[test]
fn destination_ttl_and_dscp_are_parsed_if_a_limit_uses_them() {
    let mut v4 = ipv4(5, 0, UDP, &TRANSPORT);
    (v4[1], v4[8]) = (46 << 2 | 3, 17);
    v4[16..20].copy_from_slice(&[198, 51, 100, 9]);
    let seen = Parsed::Ipv4(source_v4())
        .info(&mut &v4[..], ALL)
        .expect("a source");
    let destination = Address::ipv4(u32::from_ne_bytes([198, 51, 100, 9]));
    assert_eq!(
        (seen.ttl, seen.dscp, seen.destination),
        (17, 46, destination)
    );
    let mut v6 = ipv6(UDP, 19, &TRANSPORT);
    (v6[0], v6[1]) = (0x6b, 0x8f);
    v6[24..40].copy_from_slice(&SOURCE_V6.octets());
    let seen = Parsed::Ipv6(source_v6())
        .info(&mut &v6[..], ALL)
        .expect("a source");
    assert_eq!(
        (seen.ttl, seen.dscp, seen.destination),
        (19, 46, source_v6())
    );
    for (parsed, packet) in [
        (Parsed::Ipv4(source_v4()), v4),
        (Parsed::Ipv6(source_v6()), v6),
    ] {
        let seen = info(parsed, &packet);
        assert_eq!(
            (seen.ttl, seen.dscp, seen.destination),
            (0, 0, Address::ZEROS)
        );
    }
}

#[test]
fn icmp_types_of_both_versions_differ() {
    let v4 = |protocol, fragment, rest: &[u8]| {
        let packet = ipv4(5, fragment, protocol, rest);
        Parsed::Ipv4(source_v4())
            .info(&mut &packet[..], ALL)
            .expect("it is small")
            .icmp_type
    };
    assert_eq!(v4(ICMP, 0, &[8, 0]), 8);
    assert_eq!(v4(ICMPV6, 0, &[8, 0]), OF_ICMPV6 + 8);
    assert_eq!(v4(UDP, 0, &[8, 0]), NONE);
    // The length is 0x1111: the frame's first buffer ends too early. The type of a fragment cannot be seen either.
    assert_eq!(v4(ICMP, 0, &[]), ANY);
    assert_eq!(v4(ICMP, 0x2000, &[]), ANY);
    assert_eq!(v4(ICMP, 1, &[8, 0]), ANY);
    // In a packet that ends before its type, the byte is padding.
    for (length, kind) in [(20, NONE), (21, 8)] {
        let mut packet = ipv4(5, 0, ICMP, &[8]);
        packet[3] = length;
        packet[2] = 0;
        let seen = Parsed::Ipv4(source_v4()).info(&mut &packet[..], ALL);
        assert_eq!(seen.expect("a source").icmp_type, kind);
    }
    let mut packet = ipv6(FRAGMENT, 64, &[&fragment(0, ICMPV6)[..], &[128]].concat());
    for (length, kind) in [(8, NONE), (9, OF_ICMPV6 + 128)] {
        packet[4..6].copy_from_slice(&[0, length]);
        let seen = Parsed::Ipv6(source_v6()).info(&mut &packet[..], ALL);
        assert_eq!(seen.expect("a source").icmp_type, kind);
    }
}

#[test]
fn length_cannot_be_seen_if_the_field_says_zero() {
    let mut v4 = ipv4(5, 0, UDP, &TRANSPORT);
    v4[2..4].fill(0);
    assert_eq!(info_v4(&v4).length, ANY);
    for (next, length) in [(0, ANY), (UDP, 40), (DESTINATION, 40)] {
        let mut v6 = ipv6(
            next,
            64,
            &[&extension(DESTINATION, 0, UDP)[..], &TRANSPORT].concat(),
        );
        v6[4..6].fill(0);
        assert_eq!(info_v6(&v6).length, length, "{next}");
    }
}

/// The payload of an IPv4 packet whose IP header has `options` words of options and says that it has `length` bytes.
fn payload(options: u8, field: u16, protocol: u8, transport: &[u8], length: usize) -> Payload {
    let mut packet = ipv4(5 + options, field, protocol, transport);
    packet[2..4].copy_from_slice(&u16::try_from(length).expect("it is small").to_be_bytes());
    let mut rest = &packet[..];
    let info = Parsed::Ipv4(source_v4())
        .info(&mut rest, ALL)
        .expect("a source");
    let header = u32::try_from(packet.len() - rest.len()).expect("it is small");
    let mut payload = Payload::ZEROS;
    payload.read(&mut rest, &info, header);
    payload
}

#[test]
fn payload_is_behind_the_transport_header_and_without_padding() {
    let bytes: Vec<u8> = (1..=100).collect();
    for options in [0, 3, 10] {
        let header = 20 + usize::from(options) * 4;
        for (protocol, size) in [(UDP, 8), (TCP, 20), (TCP, 44)] {
            let mut transport = vec![0; size];
            if protocol == TCP {
                transport[12] = u8::try_from((size / 4) << 4).expect("it is small");
            }
            transport.extend(&bytes);
            for length in [0, 1, 7, 8, 9, 63, 64, 65, 100] {
                // The frame has all 100 bytes; those behind the packet are padding.
                let seen = payload(options, 0, protocol, &transport, header + size + length);
                assert_eq!((seen.length as usize, seen.hidden), (length.min(64), 0));
                for offset in 0..=length.min(64).saturating_sub(8) {
                    if length >= 8 {
                        let word = seen.word(u32::try_from(offset).expect("it is small"));
                        assert_eq!(word.to_ne_bytes(), bytes[offset..offset + 8], "{offset}");
                    }
                }
                // The frame ends before the packet.
                let cut = &transport[..size + length];
                let seen = payload(options, 0, protocol, cut, 1_400);
                let hidden = u32::from(length < 64);
                assert_eq!(
                    (seen.length as usize, seen.hidden),
                    (length.min(64), hidden)
                );
            }
        }
    }
}

#[test]
fn payload_of_fragments_is_hidden_and_other_protocols_have_none() {
    let mut transport = vec![0; 20];
    transport[12] = 0x50;
    transport.extend([7; 8]);
    let length_and_hidden = |field, protocol| {
        let seen = payload(0, field, protocol, &transport, 48);
        (seen.length, seen.hidden)
    };
    assert_eq!(length_and_hidden(0, TCP), (8, 0));
    // Of 28 bytes, a receiver takes 24 from this fragment.
    assert_eq!(length_and_hidden(0x2000, TCP), (4, 1));
    assert_eq!(length_and_hidden(2, TCP), (0, 1));
    for field in [0, 0x2000, 2] {
        assert_eq!(length_and_hidden(field, ICMP), (0, 0));
        assert_eq!(length_and_hidden(field, 132), (0, 0));
    }
    // The headers do not fit into the frame's first buffer, or into the packet.
    for length in [0, 3, 4, 12] {
        let seen = payload(0, 0, TCP, &transport[..length], 48);
        assert_eq!((seen.length, seen.hidden), (0, 1), "{length}");
    }
    assert_eq!(payload(0, 0, UDP, &transport, 27), Payload::ZEROS);
}

#[test]
fn payload_of_udp_ends_with_its_own_length() {
    // The IP header has room for 30 bytes behind the header of UDP.
    for (own, length) in [
        (8, 0),
        (9, 1),
        (20, 12),
        (38, 30),
        (39, 30),
        (0xffff, 30),
        (0, 30),
        (7, 0),
    ] {
        let mut transport = vec![0x5a; 60];
        transport[4..6].copy_from_slice(&u16::to_be_bytes(own));
        let seen = payload(0, 0, UDP, &transport, 58);
        assert_eq!((seen.length, seen.hidden), (length, 0), "{own}");
    }
}

/// The packet of a first fragment with these bytes of TCP, by its IP header, in a frame that has all of [`TRANSPORT`].
fn short_first(is_ipv4: bool, bytes: u16) -> Vec<u8> {
    if is_ipv4 {
        let mut packet = ipv4(5, 0x2000, TCP, &TRANSPORT);
        packet[2..4].copy_from_slice(&(20 + bytes).to_be_bytes());
        return packet;
    }
    let mut packet = ipv6(FRAGMENT, 64, &[&fragment(1, TCP)[..], &TRANSPORT].concat());
    packet[4..6].copy_from_slice(&(8 + bytes).to_be_bytes());
    packet
}

#[test]
fn bytes_behind_the_units_of_a_first_fragment_are_not_read() {
    for is_ipv4 in [true, false] {
        for bytes in 8..=24 {
            let packet = short_first(is_ipv4, bytes);
            let seen = if is_ipv4 {
                info_v4(&packet)
            } else {
                info_v6(&packet)
            };
            let flags = if bytes < 16 { ANY } else { 0xa5 };
            assert_eq!((seen.source_port, seen.flags), (0x1234, flags), "{bytes}");
        }
    }
    // The type of an ICMP message, and the size of a TCP header.
    let mut packet = ipv4(5, 0x2000, ICMP, &[8; 8]);
    for (length, kind) in [(20, ANY), (27, ANY), (28, 8)] {
        packet[2..4].copy_from_slice(&u16::to_be_bytes(length));
        let seen = Parsed::Ipv4(source_v4()).info(&mut &packet[..], ALL);
        assert_eq!(seen.expect("a source").icmp_type, kind, "{length}");
    }
    let transport = [0; 60];
    for (length, bytes) in [(28, 0), (36, 0), (40, 0), (43, 0), (44, 4)] {
        let seen = payload(0, 0x2000, TCP, &transport, length);
        assert_eq!((seen.length, seen.hidden), (bytes, 1), "{length}");
    }
}

/// The length of the payload of an IPv4 packet with `options` words of options and this length in its header.
fn payload_length(options: u8, field: u16, protocol: u8, transport: &[u8], length: u16) -> u32 {
    let mut packet = ipv4(5 + options, field, protocol, transport);
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    let mut rest = &packet[..];
    let info = Parsed::Ipv4(source_v4())
        .info(&mut rest, ALL)
        .expect("a source");
    let header = u32::try_from(packet.len() - rest.len()).expect("it is small");
    payload::length(&rest, &info, header)
}

#[test]
fn payload_length_counts_no_header_and_cannot_be_seen_in_fragments() {
    for options in [0, 10] {
        let header = 20 + u16::from(options) * 4;
        for (protocol, size, word) in [(ICMP, 8, 0), (UDP, 8, 0), (TCP, 20, 0x50), (TCP, 60, 0xf0)]
        {
            let mut transport = vec![0; 60];
            transport[12] = word;
            for bytes in [0, 1, 100, 1_400] {
                let length_of = |field| {
                    payload_length(options, field, protocol, &transport, header + size + bytes)
                };
                assert_eq!(length_of(0), bytes.into(), "{protocol}");
                assert_eq!([length_of(0x2000), length_of(1)], [ANY; 2], "{protocol}");
            }
            // The packet ends within the header, by its length or in the frame.
            assert_eq!(
                payload_length(options, 0, protocol, &transport, header + 1),
                0
            );
            assert_eq!(payload_length(options, 0, protocol, &transport, 0), ANY);
        }
        assert_eq!(payload_length(options, 0, TCP, &[0; 12], header + 20), ANY);
        for protocol in [47, 50, 132] {
            assert_eq!(payload_length(options, 0, protocol, &[0; 60], 100), NONE);
        }
    }
    // UDP has a length of its own.
    for (own, bytes) in [(8, 0), (20, 12), (38, 30), (39, 30), (0, 30), (7, 0)] {
        let mut transport = vec![0; 60];
        transport[4..6].copy_from_slice(&u16::to_be_bytes(own));
        assert_eq!(payload_length(0, 0, UDP, &transport, 58), bytes, "{own}");
    }
}

/// The VLAN of a frame with these tags: the kind and the id of each.
fn vlan(tags: &[(u16, u16)]) -> u32 {
    let mut frame = vec![2; 12];
    for (kind, id) in tags {
        frame.extend(kind.to_be_bytes());
        frame.extend(id.to_be_bytes());
    }
    frame.extend(IPV4.to_be_bytes());
    frame.extend(ipv4(5, 0, UDP, &TRANSPORT));
    (&frame[..]).vlan()
}

#[test]
fn vlan_is_that_of_the_first_tag_with_an_id() {
    assert_eq!(vlan(&[]), NONE);
    assert_eq!(vlan(&[(VLAN, 0xe000)]), NONE);
    assert_eq!(vlan(&[(VLAN, 0xe014)]), 20);
    assert_eq!(vlan(&[(VLAN, 0), (SERVICE_VLAN, 0xf000), (VLAN, 21)]), 21);
    assert_eq!(vlan(&[(SERVICE_VLAN, 20), (VLAN, 30)]), 20);
    assert_eq!(vlan(&[(VLAN, 0); 8]), NONE);
    let mut eight = [(VLAN, 0); 8];
    eight[7].1 = 0xfff;
    assert_eq!(vlan(&eight), 0xfff);
    // A tag without its EtherType, and a frame without one.
    assert_eq!(
        (&[[2; 12], [0x81, 0, 0, 20, 8, 0, 0, 0, 0, 0, 0, 0]].concat()[..15]).vlan(),
        NONE
    );
    assert_eq!((&[2; 13][..]).vlan(), NONE);
}

/// The packet that an error quotes, as its peer would answer it.
fn quoted(version: u16, outer: &[u8]) -> Option<PacketInfo> {
    let frame = ethernet(&[VLAN, version], outer);
    let mut info = PacketInfo::of(Address::ZEROS);
    let mut packet = &frame[..];
    assert!(policy::read(&mut packet, &mut info));
    let is_read = related::read(&mut packet, &mut info);
    // Of the error itself.
    info.length = 0;
    is_read.then_some(info)
}

/// The header of an error, and what it quotes.
fn error(kind: u8, quoted: &[u8]) -> Vec<u8> {
    [&[kind, 4, 0, 0, 0, 0, 0, 0], quoted].concat()
}

/// A packet whose addresses are exchanged. `begin`: offset of the first one; `length`: bytes of each.
fn exchanged(mut packet: Vec<u8>, begin: usize, length: usize) -> Vec<u8> {
    packet[begin..begin + 2 * length].rotate_left(length);
    packet
}

#[test]
fn quoted_packet_is_read_as_one_of_the_peer() {
    for protocol in [TCP, UDP] {
        // The host has sent this packet, so its source is the error's destination.
        let sent = exchanged(ipv4(5, 0x4000, protocol, &TRANSPORT), 12, 4);
        let with_error = |quoted: &[u8]| ipv4(5, 0, ICMP, &error(3, quoted));
        let peer = quoted(IPV4, &with_error(&sent[..28])).unwrap();
        assert_eq!(peer.source, source_v4());
        assert_eq!(peer.protocol, u32::from(protocol));
        assert_eq!((peer.source_port, peer.destination_port), (0x5678, 0x1234));
        assert_eq!(quoted(IPV4, &with_error(&sent[..24])), Some(peer));
        assert_eq!(quoted(IPV4, &with_error(&sent[..23])), None);
        let with_options = exchanged(ipv4(15, 0x2000, protocol, &TRANSPORT), 12, 4);
        assert_eq!(quoted(IPV4, &with_error(&with_options)), Some(peer));
        let later = exchanged(ipv4(5, 1, protocol, &TRANSPORT), 12, 4);
        assert_eq!(quoted(IPV4, &with_error(&later)), None);
        assert_eq!(
            quoted(IPV4, &with_error(&ipv4(5, 0, protocol, &TRANSPORT))),
            None
        );
        assert_eq!(quoted(IPV4, &ipv4(5, 0, ICMP, &error(8, &sent))), None);
        assert_eq!(quoted(IPV4, &ipv4(5, 0x2000, ICMP, &error(3, &sent))), None);
        assert_eq!(quoted(IPV4, &ipv4(5, 0, ICMPV6, &error(3, &sent))), None);

        let sent = exchanged(ipv6(protocol, 64, &TRANSPORT), 8, 16);
        let with_error = |quoted: &[u8]| ipv6(ICMPV6, 64, &error(2, quoted));
        let peer = quoted(IPV6, &with_error(&sent[..48])).unwrap();
        assert_eq!(peer.source, source_v6());
        assert_eq!((peer.source_port, peer.destination_port), (0x5678, 0x1234));
        assert_eq!(quoted(IPV6, &with_error(&sent[..43])), None);
        assert_eq!(quoted(IPV6, &ipv6(ICMPV6, 64, &error(128, &sent))), None);
        let extended = exchanged(
            ipv6(
                DESTINATION,
                64,
                &[extension(DESTINATION, 0, protocol), TRANSPORT.to_vec()].concat(),
            ),
            8,
            16,
        );
        assert_eq!(quoted(IPV6, &with_error(&extended)), None);
        let later = exchanged(
            ipv6(
                FRAGMENT,
                64,
                &[fragment(8, protocol), TRANSPORT.to_vec()].concat(),
            ),
            8,
            16,
        );
        assert_eq!(quoted(IPV6, &with_error(&later)), None);
    }
}
