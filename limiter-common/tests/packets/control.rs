//! Control traffic is recognised by what a far sender cannot make.

use limiter_common::{
    abi::{
        Constants,
        rules::{
            CONTROL_BANNED, CONTROL_LINK, CONTROL_NEAR, CONTROL_ROUTING, NEEDS_BFD, NEEDS_CONTROL,
            NEEDS_OSPF, NEEDS_TRANSPORT, NEEDS_VRRP,
        },
    },
    policy::{Parsed, control},
    table::key::{self, Address},
};

use crate::frames::{
    DESTINATION, FRAGMENT, Fields as _, HOP_BY_HOP, ICMP, ICMPV6, TRANSPORT, UDP, WITH_PORTS,
    extension, fragment, info, ipv4, ipv6, source_v4, source_v6,
};

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
