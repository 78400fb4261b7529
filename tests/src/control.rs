//! Makes control traffic: messages of the link, and of routing protocols.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Nobody: the source of hosts without an address.
pub const NOBODY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];

/// The hardware address of a host.
pub const fn hardware(number: u32) -> [u8; 6] {
    let [a, b, c, d] = number.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// A frame of the host with this hardware address.
fn ethernet(hardware: [u8; 6], kind: u16, packet: &[u8]) -> Vec<u8> {
    [&[0xff; 6], &hardware[..], &kind.to_be_bytes(), packet].concat()
}

/// A frame with an IP packet of this protocol and hop limit.
pub fn packet(
    hardware: [u8; 6],
    [from, destination]: [IpAddr; 2],
    (protocol, hops): (u8, u8),
    transport: &[u8],
) -> Vec<u8> {
    let length = u16::try_from(transport.len()).unwrap();
    match (from, destination) {
        (IpAddr::V4(from), IpAddr::V4(destination)) => {
            let mut header = vec![0x45, 0];
            header.extend((20 + length).to_be_bytes());
            header.extend([0, 1, 0, 0, hops, protocol, 0, 0]);
            header.extend([from.octets(), destination.octets()].concat());
            ethernet(hardware, 0x0800, &[&header, transport].concat())
        }
        (IpAddr::V6(from), IpAddr::V6(destination)) => {
            let mut header = vec![0x60, 0, 0, 0];
            header.extend(length.to_be_bytes());
            header.extend([protocol, hops]);
            header.extend([from.octets(), destination.octets()].concat());
            ethernet(hardware, 0x86dd, &[&header, transport].concat())
        }
        _ => unreachable!("both addresses have one family"),
    }
}

/// An address.
pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The transport header and payload of UDP.
fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).unwrap();
    let mut bytes = ports.map(u16::to_be_bytes).concat();
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

/// A DHCP request of the client with this hardware address, forwarded by a relay if there is one. The frame's sender is
/// always the same.
pub fn dhcp(client: [u8; 6], relay: Option<Ipv4Addr>) -> Vec<u8> {
    let mut message = vec![0; 240];
    message[..3].copy_from_slice(&[1, 1, 6]);
    let mut source = Ipv4Addr::UNSPECIFIED;
    if let Some(relay) = relay {
        message[24..28].copy_from_slice(&relay.octets());
        source = relay;
    }
    message[28..34].copy_from_slice(&client);
    let ends = [source.into(), address("255.255.255.255")];
    packet(hardware(0), ends, (17, 64), &udp([68, 67], &message))
}

/// A DHCP answer to a client.
pub fn offer(server: IpAddr) -> Vec<u8> {
    let mut message = vec![0; 240];
    message[0] = 2;
    let ends = [server, address("255.255.255.255")];
    packet(hardware(0), ends, (17, 64), &udp([67, 68], &message))
}

/// A DHCPv6 message of a client, as its relay forwards it.
pub fn relayed_v6(relay: Ipv6Addr, peer: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![0; 34];
    message[0] = 12;
    message[18..].copy_from_slice(&peer.octets());
    let ends = [relay.into(), address("ff05::1:3")];
    packet(hardware(0), ends, (17, 64), &udp([547, 547], &message))
}

/// An ARP request for 192.0.2.1.
pub fn arp(sender: [u8; 6], from: Ipv4Addr) -> Vec<u8> {
    let mut body = vec![0, 1, 8, 0, 6, 4, 0, 1];
    body.extend(sender);
    body.extend(from.octets());
    body.extend([0, 0, 0, 0, 0, 0, 192, 0, 2, 1]);
    ethernet(sender, 0x0806, &body)
}

/// A message of ICMPv6 of this type.
pub fn icmpv6(sender: [u8; 6], from: IpAddr, kind: u8, hops: u8) -> Vec<u8> {
    let mut message = vec![0; 24];
    message[0] = kind;
    packet(sender, [from, address("ff02::1")], (58, hops), &message)
}

/// A membership report of IGMP.
pub fn igmp(sender: [u8; 6], from: IpAddr) -> Vec<u8> {
    let message = [0x22, 0, 0, 0, 0, 0, 0, 0];
    packet(sender, [from, address("224.0.0.22")], (2, 1), &message)
}

/// An advertisement of VRRP.
pub fn vrrp(from: IpAddr, ttl: u8) -> Vec<u8> {
    let group = match from {
        IpAddr::V4(_) => "224.0.0.18",
        IpAddr::V6(_) => "ff02::12",
    };
    let message = [0x31, 1, 100, 1, 0, 100, 0, 0, 192, 0, 2, 9];
    packet(hardware(0), [from, address(group)], (112, ttl), &message)
}

/// A greeting of OSPF.
pub fn ospf(from: IpAddr) -> Vec<u8> {
    let group = match from {
        IpAddr::V4(_) => "224.0.0.5",
        IpAddr::V6(_) => "ff02::5",
    };
    packet(hardware(0), [from, address(group)], (89, 1), &[2; 44])
}

/// A message of BFD over one hop.
pub fn bfd(from: IpAddr, ttl: u8) -> Vec<u8> {
    let destination = match from {
        IpAddr::V4(_) => "192.0.2.1",
        IpAddr::V6(_) => "2001:db8::1",
    };
    let message = udp([49_152, 3_784], &[0x20; 24]);
    packet(
        hardware(0),
        [from, address(destination)],
        (17, ttl),
        &message,
    )
}
