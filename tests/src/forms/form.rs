//! Makes forms of a packet: tags, options, extension headers and fragments around one transport header.

use std::net::IpAddr;

use fastrand::Rng;

use crate::packet::Ends;
use crate::random::{one, percent};

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const TCP: u8 = 6;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// The differences between packets that mean the same to a listener.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// EtherTypes of VLAN tags, all with VLAN id 0.
    tags: Vec<u16>,
    /// An 802.3 length and a SNAP header instead of the EtherType.
    llc: bool,
    /// Words of options in each IPv4 header.
    options: usize,
    /// IPv6 extension headers before and after the fragment header: kind, and units of 8 bytes beyond the first.
    extensions: [Vec<(u8, u8)>; 2],
    /// Fragmentation of the datagram, if any.
    cut: Option<Cut>,
    /// Protocol of an IP header around the packet: 4 (IP in IP) or 41 (6in4).
    tunnel: bool,
    /// Bytes after the packet.
    padding: usize,
}

/// Fragmentation of a datagram.
#[derive(Clone, Debug)]
struct Cut {
    /// Bytes of the first fragment, and of each later one.
    sizes: (usize, usize),
    /// Next header that later IPv6 fragments claim.
    claims: u8,
    /// Bytes by which each later fragment overlaps the previous one.
    overlap: usize,
    /// Seed of the order of the fragments: in order, reversed, or any.
    order: u64,
}

impl Form {
    /// A random form of IPv4 or IPv6.
    pub fn random(rng: &mut Rng, is_ipv4: bool, payload: usize) -> Self {
        let mut form = Self::default();
        if percent(rng, 50) {
            let tags = 0..rng.usize(1..=10);
            form.tags = tags.map(|_| *one(rng, &[0x8100, 0x88a8])).collect();
        }
        form.llc = percent(rng, 5);
        form.tunnel = percent(rng, 5);
        if percent(rng, 30) {
            form.padding = rng.usize(1..=40);
        }
        if is_ipv4 && percent(rng, 40) {
            form.options = rng.usize(1..=10);
        }
        if !is_ipv4 && percent(rng, 60) {
            form.extensions = [extensions(rng, true), extensions(rng, false)];
        }
        if percent(rng, 60) {
            form.cut = Some(Cut {
                sizes: (
                    8 * rng.usize(1..=4),
                    (payload / 16).next_multiple_of(8).max(8 * rng.usize(1..=8)),
                ),
                claims: *one(rng, &[6, 17, 58, 59, 0, 44, 60, 253]),
                overlap: *one(rng, &[0, 0, 0, 0, 0, 8]),
                order: rng.u64(0..4),
            });
        }
        form
    }

    /// The frames of one datagram with `transport` between these ends. `number` identifies the datagram of a source.
    pub fn frames(&self, ends: &Ends, protocol: u8, transport: &[u8], number: u16) -> Vec<Vec<u8>> {
        let is_ipv4 = ends.from.is_ipv4();
        let [before, behind] = &self.extensions;
        let (inner, payload) = match is_ipv4 {
            true => (protocol, transport.to_vec()),
            false => chain(behind, protocol, transport),
        };
        let packets = self
            .parts(payload.len())
            .into_iter()
            .map(|(begin, end, more)| {
                let part = &payload[begin..end];
                if is_ipv4 {
                    let field = (begin / 8) as u16 | u16::from(more) << 13;
                    return self.ipv4(ends, protocol, (number, field), part);
                }
                let (next, rest) = match &self.cut {
                    Some(cut) => {
                        let claimed = if begin == 0 { inner } else { cut.claims };
                        let field = begin as u16 | u16::from(more);
                        let mut header = vec![claimed, 0];
                        header.extend(field.to_be_bytes());
                        header.extend(u32::from(number).to_be_bytes());
                        (FRAGMENT, [&header, part].concat())
                    }
                    None => (inner, part.to_vec()),
                };
                let (next, rest) = chain(before, next, &rest);
                ipv6(ends, next, &rest)
            });
        let mut frames: Vec<_> = packets.map(|packet| self.frame(ends, packet)).collect();
        match &self.cut {
            Some(cut) if cut.order == 1 => frames.reverse(),
            Some(cut) if cut.order > 1 => {
                Rng::with_seed(cut.order + u64::from(number)).shuffle(&mut frames)
            }
            _ => {}
        }
        frames
    }

    /// Beginning and end of each part, and true if more follow.
    fn parts(&self, length: usize) -> Vec<(usize, usize, bool)> {
        let Some(cut) = &self.cut else {
            return vec![(0, length, false)];
        };
        let (mut parts, mut begin, mut size) = (Vec::new(), 0, cut.sizes.0);
        loop {
            let end = (begin + size).min(length);
            parts.push((begin, end, end < length));
            if end == length {
                return parts;
            }
            begin = end - if size > cut.overlap { cut.overlap } else { 0 };
            size = cut.sizes.1 + cut.overlap;
        }
    }

    fn ipv4(&self, ends: &Ends, protocol: u8, (id, fragment): (u16, u16), rest: &[u8]) -> Vec<u8> {
        let words = 5 + self.options;
        let mut header = vec![0x40 | words as u8, 0];
        header.extend(((words * 4 + rest.len()) as u16).to_be_bytes());
        header.extend(id.to_be_bytes());
        header.extend(fragment.to_be_bytes());
        header.extend([64, protocol, 0, 0]);
        header.extend(octets(ends.from.ip()));
        header.extend(octets(ends.to.ip()));
        // Option type 1: no operation.
        header.resize(words * 4, 1);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header.extend(rest);
        header
    }

    /// The frame of a packet, with everything before and after it.
    fn frame(&self, ends: &Ends, mut packet: Vec<u8>) -> Vec<u8> {
        let mut kind: u16 = if ends.from.is_ipv4() { 0x0800 } else { 0x86dd };
        if self.tunnel && ends.from.is_ipv4() {
            packet = Self::default().ipv4(ends, 4, (1, 0), &packet);
        } else if self.tunnel {
            packet = ipv6(ends, 41, &packet);
        }
        if self.llc {
            let snap = [&[0xaa, 0xaa, 3, 0, 0, 0][..], &kind.to_be_bytes(), &packet].concat();
            (kind, packet) = (snap.len() as u16, snap);
        }
        let mut frame = [ends.macs.1, ends.macs.0].concat();
        for tag in &self.tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 0]);
        }
        frame.extend(kind.to_be_bytes());
        frame.extend(packet);
        frame.resize(frame.len() + self.padding, 0x5a);
        frame
    }
}

/// A TCP segment in two fragments of IPv4. The first has `length` bytes by its IP header, and only eight of them are those of
/// the segment: behind these are bytes that no receiver uses, with the TCP flag ACK.
pub fn short_first(ends: &Ends, transport: &[u8], number: u16, length: usize) -> [Vec<u8>; 2] {
    let (plain, forged) = (Form::default(), [0, 0, 0, 0, 0x50, 0x10, 0, 0]);
    let (first, later) = transport.split_at(8);
    let first = [first, &forged].concat();
    let (part, padding) = first.split_at(length);
    let packets = [(part, 0, true), (later, 8, false)].map(|(part, offset, more)| {
        plain.ipv4(
            ends,
            TCP,
            (number, (offset / 8) | (u16::from(more) << 13)),
            part,
        )
    });
    let [mut first, later] = packets.map(|packet| plain.frame(ends, packet));
    first.extend(padding);
    [first, later]
}

/// A few extension headers. Hop-by-hop options may only be the first.
fn extensions(rng: &mut Rng, is_first: bool) -> Vec<(u8, u8)> {
    let length = rng.usize(0..=10);
    let kinds = (0..length).map(|index| {
        let kind = *one(rng, &[DESTINATION, DESTINATION, DESTINATION, ROUTING]);
        let first = is_first && index == 0 && percent(rng, 30);
        (if first { HOP_BY_HOP } else { kind }, rng.u8(0..3))
    });
    kinds.collect()
}

/// Extension headers before `rest`, a header of kind `next`. Returns the kind of the first header, and all bytes.
fn chain(kinds: &[(u8, u8)], next: u8, rest: &[u8]) -> (u8, Vec<u8>) {
    let start = (next, rest.to_vec());
    kinds
        .iter()
        .rev()
        .fold(start, |(next, rest), (kind, units)| {
            let size = 8 * (usize::from(*units) + 1);
            // An option that hosts skip if they do not know it, or a routing header without segments left.
            let mut header = vec![next, *units, 0x1e, (size - 4) as u8];
            if *kind == ROUTING {
                header = vec![next, *units, 0, 0];
            }
            header.resize(size, 0);
            (*kind, [header, rest].concat())
        })
}

fn ipv6(ends: &Ends, next: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend((rest.len() as u16).to_be_bytes());
    header.extend([next, 64]);
    header.extend(octets(ends.from.ip()));
    header.extend(octets(ends.to.ip()));
    header.extend(rest);
    header
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Internet checksum (RFC 1071) of an even number of bytes.
pub fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let mut sum: u32 = words.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
