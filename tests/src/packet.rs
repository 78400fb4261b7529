//! Makes frames with an independent library.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep};

use crate::forms::checksum;

/// VLAN tags of a frame: none, an 802.1Q tag, or an 802.1ad tag with an 802.1Q tag inside.
pub const TAGS: [&[u16]; 3] = [&[], &[0x8100], &[0x88a8, 0x8100]];

/// Description of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Hardware addresses: source, destination.
    pub macs: ([u8; 6], [u8; 6]),
    /// EtherTypes of VLAN tags.
    pub tags: &'static [u16],
    /// Source address.
    pub source: IpAddr,
    /// Bytes of the UDP payload.
    pub payload: usize,
}

impl Frame {
    /// An untagged UDP packet from `source`.
    pub fn from(source: IpAddr) -> Self {
        Self {
            macs: ([2; 6], [4; 6]),
            tags: &[],
            source,
            payload: 18,
        }
    }

    /// The frame's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let destination: IpAddr = match self.source {
            IpAddr::V4(_) => [192, 0, 2, 1].into(),
            IpAddr::V6(_) => [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
        };
        let ends = Ends {
            macs: self.macs,
            from: SocketAddr::new(self.source, 40_000),
            to: SocketAddr::new(destination, 9),
        };
        let untagged = ends.udp(&vec![0x5a; self.payload]);
        let (macs, rest) = untagged.split_at(12);
        let tags = self.tags.iter().map(|tag| tag.to_be_bytes());
        let tags: Vec<u8> = tags.flat_map(|[a, b]| [a, b, 0, 7]).collect();
        [macs, &tags, rest].concat()
    }
}

/// Kind of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A connection request.
    Syn,
    /// The answer to a connection request.
    SynAck,
    /// Data of a connection.
    Data,
}

/// Sender and receiver of a frame with ports.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Hardware addresses: source, destination.
    pub macs: ([u8; 6], [u8; 6]),
    /// The sender.
    pub from: SocketAddr,
    /// The receiver, of the same family.
    pub to: SocketAddr,
}

impl Ends {
    /// Changes the ports: source, destination.
    pub fn at(mut self, from: u16, destination: u16) -> Self {
        self.from.set_port(from);
        self.to.set_port(destination);
        self
    }

    /// A UDP frame.
    pub fn udp(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let udp = self.ip().udp(self.from.port(), self.to.port());
        udp.write(&mut bytes, payload).unwrap();
        bytes
    }

    /// A TCP frame, with sequence numbers that no connection expects.
    pub fn tcp(&self, segment: Segment) -> Vec<u8> {
        self.tcp_with(segment, &[0x5a; 20])
    }

    /// A TCP frame. Data has this payload.
    pub fn tcp_with(&self, segment: Segment, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let tcp = self.ip().tcp(self.from.port(), self.to.port(), 1, u16::MAX);
        match segment {
            Segment::Syn => tcp.syn().write(&mut bytes, &[]),
            Segment::SynAck => tcp.syn().ack(1).write(&mut bytes, &[]),
            Segment::Data => tcp.ack(1).write(&mut bytes, payload),
        }
        .unwrap();
        bytes
    }

    /// An ICMP echo request over IPv4.
    pub fn ping(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let ping = self.ip().icmpv4_echo_request(1, 1);
        ping.write(&mut bytes, payload).unwrap();
        bytes
    }

    fn ip(&self) -> PacketBuilderStep<IpHeaders> {
        let builder = PacketBuilder::ethernet2(self.macs.0, self.macs.1);
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(destination)) => {
                builder.ipv4(from.octets(), destination.octets(), 64)
            }
            (IpAddr::V6(from), IpAddr::V6(destination)) => {
                builder.ipv6(from.octets(), destination.octets(), 64)
            }
            mixed => panic!("of two families: {mixed:?}"),
        }
    }
}

/// A UDP frame of exactly `length` bytes from `source`.
pub fn udp_of_length(source: IpAddr, length: usize) -> Vec<u8> {
    let with_payload = |payload| {
        let frame = Frame::from(source);
        Frame { payload, ..frame }.bytes()
    };
    with_payload(length - with_payload(0).len())
}

/// An ARP request.
pub fn arp() -> Vec<u8> {
    let mut bytes = vec![0xff; 6];
    bytes.extend([2; 6]);
    bytes.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    bytes.resize(60, 0);
    bytes
}

/// Corrects the checksums of an untagged IPv4 frame with a TCP segment.
pub fn correct(frame: &mut [u8]) {
    let length = (frame.len() - 34) as u16;
    frame[24..26].fill(0);
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[50..52].fill(0);
    let mut summed = frame[26..].to_vec();
    summed.extend([0, 6]);
    summed.extend(length.to_be_bytes());
    let sum = checksum(&summed);
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
}
