//! The packet that an ICMP error quotes is read as one of the peer.

use limiter_common::{
    pod::Pod as _,
    policy::{self, PacketInfo, related},
    table::key::Address,
};

use crate::frames::{
    DESTINATION, FRAGMENT, ICMP, ICMPV6, IPV4, IPV6, TCP, TRANSPORT, UDP, VLAN, ethernet,
    extension, fragment, ipv4, ipv6, source_v4, source_v6,
};

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
