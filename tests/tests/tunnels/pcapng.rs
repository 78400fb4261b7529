//! The packets that `watch --write` has written.

use std::{fs::File, net::IpAddr};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::{
    DataLink,
    pcapng::{Block, PcapNgReader},
};

use super::link::{FROM, PAYLOAD, PORT};

/// The packets in a file, which must say that they begin with the IP header and must be complete.
pub fn packets(path: &str) -> Vec<Vec<u8>> {
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => assert_eq!(interface.linktype, DataLink::RAW),
            Block::EnhancedPacket(packet) => {
                assert_eq!(packet.data.len(), packet.original_len as usize);
                packets.push(packet.data.to_vec());
            }
            other => panic!("{other:?}"),
        }
    }
    packets
}

/// Fails unless this is the packet with this number between these addresses.
pub fn expect(packet: &[u8], ends: [IpAddr; 2], number: u8) {
    let sliced = SlicedPacket::from_ip(packet).unwrap_or_else(|why| panic!("{why}: {packet:02x?}"));
    let found: [IpAddr; 2] = match sliced.net {
        Some(NetSlice::Ipv4(ip)) => [
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ],
        Some(NetSlice::Ipv6(ip)) => [
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ],
        _ => panic!("{packet:02x?}"),
    };
    assert_eq!(found, ends, "{packet:02x?}");
    let Some(TransportSlice::Udp(udp)) = sliced.transport else {
        panic!("{packet:02x?}");
    };
    assert_eq!((udp.source_port(), udp.destination_port()), (FROM, PORT));
    assert_eq!(udp.payload(), [number; PAYLOAD], "{packet:02x?}");
}
