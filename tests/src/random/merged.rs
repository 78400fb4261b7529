//! Draws random merged packets: tags, options, extension headers and tunnels around one TCP or UDP header.

use fastrand::Rng;

use super::{one, percent};
use crate::model::merged::{Kind, Merged};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ETHERNET: u16 = 0x6558;

/// Most bytes of headers and payload of one packet.
const PACKET_MAX: usize = 1_500;

/// A packet that grows at its front.
struct Growing {
    bytes: Vec<u8>,
    /// Bytes in front of the innermost transport header.
    in_front: usize,
    in_udp: bool,
}

impl Growing {
    fn put(&mut self, header: Vec<u8>) {
        self.in_front += header.len();
        self.bytes.splice(0..0, header);
    }

    /// Puts an IP header with random options or extension headers around a packet of this protocol. Returns its EtherType.
    fn put_ip(&mut self, rng: &mut Rng, protocol: u8, is_ipv6: bool) -> u16 {
        let mut next = protocol;
        if is_ipv6 {
            let most = if self.in_front == 0 { 8 } else { 3 };
            for index in 0..*one(rng, &[0, 0, 1, 2, most]) {
                let units = rng.u8(0..3);
                // One option: padding up to the end.
                let mut header = vec![next, units, 1, 4 + 8 * units];
                header.resize(8 + 8 * usize::from(units), 0);
                let is_hop_by_hop = index == 7 && percent(rng, 50);
                next = if is_hop_by_hop {
                    0
                } else {
                    *one(rng, &[60, 60, 43])
                };
                if next == 43 {
                    // A routing header of an unknown type whose end is reached.
                    header[2..4].copy_from_slice(&[253, 0]);
                }
                self.put(header);
            }
            let length = self.bytes.len() as u16;
            let mut header = vec![0x60, 0, 0, 0];
            header.extend(length.to_be_bytes());
            header.extend([next, 64]);
            header.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
            header.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8]);
            self.put(header);
            return IPV6;
        }
        let words = 5 + if percent(rng, 40) {
            rng.usize(0..=10)
        } else {
            0
        };
        let mut header = vec![0x40 | words as u8, 0];
        header.extend(((words * 4 + self.bytes.len()) as u16).to_be_bytes());
        header.extend([
            0, 1, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 9, 192, 0, 2, 8,
        ]);
        // No operation.
        header.resize(words * 4, 1);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        self.put(header);
        IPV4
    }

    fn put_udp(&mut self, port: u16) {
        let length = (self.bytes.len() + 8) as u16;
        let ports = [40_000_u16, port, length, 0].map(u16::to_be_bytes);
        self.put(ports.concat());
        self.in_udp = true;
    }

    fn put_ethernet(&mut self, macs: ([u8; 6], [u8; 6]), tags: usize, ether_type: u16) {
        let mut header = [macs.1, macs.0].concat();
        for index in 0..tags {
            let tag: u16 = if index == 0 && tags > 1 {
                0x88a8
            } else {
                0x8100
            };
            header.extend(tag.to_be_bytes());
            header.extend([0, 7]);
        }
        header.extend(ether_type.to_be_bytes());
        self.put(header);
    }

    /// Puts a tunnel around a packet of this EtherType. Returns the EtherType of what it is then.
    fn put_tunnel(&mut self, rng: &mut Rng, inner: u16, macs: ([u8; 6], [u8; 6])) -> u16 {
        let is_ipv6 = rng.bool();
        let mut inner = inner;
        let in_ip = if inner == IPV4 { 4 } else { 41 };
        match rng.u32(0..8) {
            0 => return self.put_ip(rng, in_ip, is_ipv6),
            1 | 2 => {
                if rng.bool() {
                    self.put_ethernet(macs, rng.usize(0..2), inner);
                    inner = ETHERNET;
                }
                let options = rng.u8(0..8);
                let mut header = vec![(options & 1) << 7 | (options >> 1) << 4, 0];
                header.extend(inner.to_be_bytes());
                header.resize(4 + 4 * options.count_ones() as usize, 0);
                self.put(header);
                return self.put_ip(rng, 47, is_ipv6);
            }
            // fou, and GUE with and without options.
            3 => self.put_udp(5_555),
            4 => {
                let words = rng.u8(0..2);
                let mut header = vec![words, in_ip, 0, 0];
                header.resize(4 + 4 * usize::from(words), 0);
                self.put(header);
                self.put_udp(6_080);
            }
            // geneve
            5 => {
                if rng.bool() {
                    self.put_ethernet(macs, rng.usize(0..2), inner);
                    inner = ETHERNET;
                }
                let words = rng.u8(0..10);
                let mut header = vec![words, *one(rng, &[0, 0x40])];
                header.extend(inner.to_be_bytes());
                header.extend([1, 2, 3, 0]);
                header.resize(8 + 4 * usize::from(words), 7);
                self.put(header);
                self.put_udp(*one(rng, &[6_081, 4_000]));
            }
            // vxlan: plain, with a group policy, with the generic protocol extension.
            _ => {
                let protocol = match inner {
                    IPV4 => 1,
                    _ => 2,
                };
                let mut header = *one(
                    rng,
                    &[
                        [8, 0, 0, 0],
                        [8, 0, 0, 0],
                        [0x88, 0, 3, 7],
                        [0x0c, 0, 0, 3],
                        [0x0c, 0, 0, protocol],
                    ],
                );
                if header[3] != protocol || header[0] != 0x0c {
                    self.put_ethernet(macs, rng.usize(0..2), inner);
                }
                if header[0] == 0x0c && header[3] == 3 {
                    header[3] = 3;
                }
                self.put([&header[..], &[1, 2, 3, 0]].concat());
                self.put_udp(*one(rng, &[4_789, 8_472, 4_000]));
            }
        }
        self.put_ip(rng, 17, is_ipv6)
    }
}

/// A merged packet between these hardware addresses, with at most so many tunnels.
pub fn merged(rng: &mut Rng, macs: ([u8; 6], [u8; 6]), tunnels: usize) -> Merged {
    loop {
        if let Some(merged) = try_merged(rng, macs, tunnels) {
            return merged;
        }
    }
}

fn try_merged(rng: &mut Rng, macs: ([u8; 6], [u8; 6]), tunnels: usize) -> Option<Merged> {
    let kind = *one(rng, &[Kind::Tcp, Kind::Tcp, Kind::Udp, Kind::Fragments]);
    let is_ipv6 = rng.bool();
    let most = match kind {
        Kind::Fragments => *one(rng, &[2, 150]),
        Kind::Tcp | Kind::Udp => *one(rng, &[3, 30, 1_200]),
    };
    let segment = match kind {
        // The kernel would count in units of eight bytes.
        Kind::Fragments => 8 * rng.usize(1..=most),
        Kind::Tcp | Kind::Udp => rng.usize(1..=most),
    };
    let in_header = if kind == Kind::Fragments { 8 } else { 0 };
    let payload = segment * rng.usize(1..50) + rng.usize(1..=segment);
    let payload = vec![0x5a; payload.saturating_sub(in_header).max(1)];
    if payload.len() + in_header <= segment || payload.len() > 60_000 {
        return None;
    }
    let transport = match kind {
        Kind::Tcp => {
            let words = rng.usize(5..=15);
            let mut header = [40_000_u16, 9].map(u16::to_be_bytes).concat();
            header.extend([0, 0, 0, 1, 0, 0, 0, 1, (words as u8) << 4, 0x10, 0xff, 0xff]);
            header.resize(words * 4, 1);
            header[16..20].fill(0);
            header
        }
        Kind::Udp | Kind::Fragments => {
            let length = (payload.len() + 8) as u16;
            [40_000_u16, 9, length, 0].map(u16::to_be_bytes).concat()
        }
    };
    let mut packet = Growing {
        bytes: [&transport[..], &payload].concat(),
        in_front: 0,
        in_udp: false,
    };
    let protocol = if kind == Kind::Tcp { 6 } else { 17 };
    let mut ether_type = packet.put_ip(rng, protocol, is_ipv6);
    for _ in 0..rng.usize(0..=tunnels) {
        ether_type = packet.put_tunnel(rng, ether_type, macs);
    }
    let tags = *one(rng, &[0, 0, 1, 2]);
    packet.put_ethernet(macs, tags, ether_type);
    let headers = packet.in_front + transport.len();
    (headers + segment <= PACKET_MAX && packet.bytes.len() < 65_000).then(|| Merged {
        headers: packet.bytes[..headers].to_vec(),
        payload,
        segment,
        kind,
        is_ipv6,
        transport: packet.in_front,
        in_udp: packet.in_udp,
    })
}

/// The Internet checksum (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}
