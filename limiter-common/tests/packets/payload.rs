//! The payload is behind the transport header, and hidden in fragments.

use limiter_common::{
    abi::rules::{ANY, NONE},
    pod::Pod as _,
    policy::{
        Parsed,
        payload::{self, Payload},
    },
};

use crate::frames::{
    ALL, FRAGMENT, Fields as _, ICMP, TCP, TRANSPORT, UDP, fragment, info_v4, info_v6, ipv4, ipv6,
    source_v4,
};

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
