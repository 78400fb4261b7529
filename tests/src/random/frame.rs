//! Writes frames of every kind that limiter distinguishes, byte by byte.

use std::net::IpAddr;

/// A TCP, UDP or other packet.
#[derive(Clone, Debug)]
pub struct Frame {
    /// EtherTypes of VLAN tags.
    pub tags: Vec<u16>,
    /// Source; the destination has the same IP version.
    pub source: IpAddr,
    /// Transport protocol.
    pub protocol: u8,
    /// Source and destination port, if the protocol has ports.
    pub ports: (u16, u16),
    /// TCP flags.
    pub flags: u8,
    /// Type of an ICMP message.
    pub icmp: u8,
    /// Hop limit.
    pub hops: u8,
    /// Offset (in units of eight bytes), and true if more fragments follow; none for no fragment header (IPv6).
    pub fragment: Option<(u16, bool)>,
    /// Words of options (IPv4).
    pub options: u8,
    /// Extension headers (IPv6): kind, and length in its units.
    pub extensions: Vec<(u8, u8)>,
    /// Bytes after the transport header.
    pub payload: usize,
}

/// IPv6 fragment header.
const FRAGMENT: u8 = 44;
/// IPv6 authentication header.
const AUTHENTICATION: u8 = 51;

impl Frame {
    /// The frame's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        for tag in &self.tags {
            bytes.extend(tag.to_be_bytes());
            bytes.extend([0, 7]);
        }
        let transport = self.transport();
        match self.source {
            IpAddr::V4(_) => self.ipv4(&mut bytes, &transport),
            IpAddr::V6(_) => self.ipv6(&mut bytes, &transport),
        }
        bytes.extend(transport);
        bytes
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.protocol {
            6 | 17 | 33 | 132 | 136 => {
                bytes.extend(self.ports.0.to_be_bytes());
                bytes.extend(self.ports.1.to_be_bytes());
            }
            _ => bytes.extend([self.icmp, 0, 0, 0]),
        }
        if self.protocol == 6 {
            bytes.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x50, self.flags, 1, 1, 1, 1, 0, 0]);
        } else {
            bytes.extend([0, 8, 0, 0]);
        }
        bytes.resize(bytes.len() + self.payload, 0x5a);
        bytes
    }

    fn ipv4(&self, bytes: &mut Vec<u8>, transport: &[u8]) {
        let IpAddr::V4(source) = self.source else {
            return;
        };
        let words = 5 + self.options;
        let length = usize::from(words) * 4 + transport.len();
        let (offset, more) = self.fragment.unwrap_or_default();
        bytes.extend(0x0800_u16.to_be_bytes());
        bytes.extend([0x40 | words, 0]);
        bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
        bytes.extend([0, 1]);
        bytes.extend((offset | u16::from(more) << 13).to_be_bytes());
        bytes.extend([self.hops, self.protocol, 0, 0]);
        bytes.extend(source.octets());
        bytes.extend([192, 0, 2, 1]);
        bytes.resize(bytes.len() + usize::from(self.options) * 4, 1);
    }

    fn ipv6(&self, bytes: &mut Vec<u8>, transport: &[u8]) {
        let IpAddr::V6(source) = self.source else {
            return;
        };
        let mut kinds: Vec<_> = self.extensions.iter().map(|(kind, _)| *kind).collect();
        if self.fragment.is_some() {
            kinds.push(FRAGMENT);
        }
        kinds.push(self.protocol);
        let mut behind = Vec::new();
        for (index, kind) in kinds[..kinds.len() - 1].iter().enumerate() {
            let next = kinds[index + 1];
            match (self.extensions.get(index), self.fragment) {
                (Some((_, units)), _) => {
                    let size = match *kind {
                        AUTHENTICATION => (usize::from(*units) + 2) * 4,
                        _ => (usize::from(*units) + 1) * 8,
                    };
                    let begin = behind.len();
                    behind.extend([next, *units]);
                    behind.resize(begin + size, 0);
                }
                (None, Some((offset, more))) => {
                    behind.extend([next, 0]);
                    behind.extend((offset << 3 | u16::from(more)).to_be_bytes());
                    behind.extend([0, 0, 0, 1]);
                }
                (None, None) => {}
            }
        }
        let length = behind.len() + transport.len();
        bytes.extend(0x86dd_u16.to_be_bytes());
        bytes.extend([0x60, 0, 0, 0]);
        bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
        bytes.extend([kinds[0], self.hops]);
        bytes.extend(source.octets());
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        bytes.extend(behind);
    }
}
