//! The policy reads each hand-made frame as the fields written beside it.

mod control;
mod frames;
mod payload;
mod related;

use limiter_common::{
    abi::rules::{ANY, ANYWHERE, FIRST_FRAGMENT, LATER_FRAGMENT, NONE, OF_ICMPV6},
    pod::Pod as _,
    policy::{Bytes as _, PacketInfo, Parsed, parse},
    table::key::Address,
};

use frames::{
    ALL, ARP, DESTINATION, EXTENSIONS, FRAGMENT, Fields as _, ICMP, ICMPV6, IPV4, IPV6,
    SERVICE_VLAN, SOURCE_V6, TCP, TRANSPORT, UDP, VLAN, WITH_PORTS, carrying, ethernet, extension,
    fragment, info, info_v4, info_v6, ipv4, ipv6, later, source_v4, source_v6, unseen,
    without_ports,
};

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
