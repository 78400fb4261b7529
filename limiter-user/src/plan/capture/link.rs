//! The framing of captured packets, and the Ethernet frame that a driver would have shown.

use std::mem::offset_of;

use network_types::eth::{EthHdr, EtherType};

/// Framing of captured packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header.
    Ethernet,
    /// The 16-byte header of `tcpdump -i any`.
    Cooked,
    /// The 20-byte header of `tcpdump -i any`, version 2.
    Cooked2,
    /// No header: IPv4 or IPv6.
    Raw,
}

/// Maximum bytes of a frame that are read: the minimum that drivers show of a frame in several buffers, and the
/// maximum of the kernel's test-run.
pub const FRAME_MOST: usize = 3_072;

const ETHERNET: usize = EthHdr::LEN;
const TYPE_AT: usize = offset_of!(EthHdr, ether_type);

const IPV4: u16 = u16::from_be(EtherType::Ipv4 as u16);
const IPV6: u16 = u16::from_be(EtherType::Ipv6 as u16);
/// The Ethernet type of no protocol: a frame with it is not IP.
const NOTHING: u16 = 0;

/// The frame that a driver would have shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The available bytes, at most [`FRAME_MOST`], from the Ethernet header on. The Ethernet header is complete.
    pub bytes: Vec<u8>,
    /// Length of the frame in bytes; at least the length of `bytes`.
    pub length: u64,
}

impl Link {
    /// The framing with a link type's number, from the registry of link types or as some systems write it.
    pub fn of_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(Self::Raw),
            113 => Some(Self::Cooked),
            276 => Some(Self::Cooked2),
            _ => None,
        }
    }

    /// The length of the framing, and the Ethernet type of what these bytes carry behind it.
    fn carries(self, bytes: &[u8]) -> (usize, u16) {
        let type_at = |offset: usize| {
            let bytes = bytes.get(offset..offset + 2);
            bytes.map_or(NOTHING, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        match self {
            Self::Ethernet => (ETHERNET, type_at(TYPE_AT)),
            Self::Cooked => (16, type_at(14)),
            Self::Cooked2 => (20, type_at(0)),
            // A packet that is neither counts as IPv4, and is malformed.
            Self::Raw => match bytes.first() {
                Some(first) if first >> 4 == 6 => (0, IPV6),
                _ => (0, IPV4),
            },
        }
    }

    /// The frame that a driver would have shown of a packet with this framing, `length` bytes long, of which `bytes`
    /// are captured.
    pub fn frame(self, bytes: &[u8], length: u64) -> Frame {
        let cut = |bytes: &[u8], most: usize| bytes[..bytes.len().min(most)].to_vec();
        if self == Self::Ethernet && bytes.len() >= ETHERNET {
            let bytes = cut(bytes, FRAME_MOST);
            return Frame { bytes, length };
        }
        let (size, carries) = self.carries(bytes);
        let (carries, carried) = match bytes.get(size..) {
            Some(carried) => (carries, carried),
            None => (NOTHING, &[][..]),
        };
        let carried = cut(carried, FRAME_MOST - ETHERNET);
        let length = length.saturating_sub(size as u64);
        Frame {
            bytes: [&[0; TYPE_AT][..], &carries.to_be_bytes(), &carried].concat(),
            length: length + ETHERNET as u64,
        }
    }

    /// Returns true if the framing says that the host sent the packet.
    pub(super) fn says_outgoing(self, bytes: &[u8]) -> bool {
        const OUTGOING: u8 = 4;
        match self {
            Self::Cooked => bytes.get(..2) == Some(&[0, OUTGOING]),
            Self::Cooked2 => bytes.get(10) == Some(&OUTGOING),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FRAME_MOST, Frame, Link};

    /// A header of zeros, with the bytes at `offset`.
    fn header(length: usize, offset: usize, bytes: &[u8]) -> Vec<u8> {
        let mut header = vec![0; length];
        header[offset..offset + bytes.len()].copy_from_slice(bytes);
        header
    }

    #[test]
    fn every_link_type_is_converted_to_ethernet() {
        let (v4, v6, none) = ([0x45, 1, 2], [0x60, 1, 2], &[][..]);
        let cooked = header(16, 14, &[0x08, 0]);
        let cooked2 = header(20, 0, &[0x86, 0xdd]);
        let ethernet = header(14, 12, &[0x08, 0]);
        for (link, from, carried, length, kind, counted) in [
            (Link::Raw, none, &v4[..], 103, 0x0800, 117),
            (Link::Raw, none, &v6, 103, 0x86dd, 117),
            (Link::Raw, none, &[0x10], 1, 0x0800, 15),
            (Link::Raw, none, none, 0, 0x0800, 14),
            (Link::Cooked, &cooked, &v4, 116, 0x0800, 114),
            (Link::Cooked2, &cooked2, &v6, 120, 0x86dd, 114),
            (Link::Cooked, &[0; 15], none, 15, 0, 14),
            (Link::Ethernet, &ethernet, &v4, 99, 0x0800, 99),
            (Link::Ethernet, &[8; 13], none, 13, 0, 14),
        ] {
            let packet = [from, carried].concat();
            let wanted = Frame {
                bytes: [&header(14, 12, &u16::to_be_bytes(kind))[..], carried].concat(),
                length: counted,
            };
            assert_eq!(link.frame(&packet, length), wanted, "{link:?}: {packet:?}");
        }
    }

    #[test]
    fn long_frame_is_truncated_and_keeps_its_length() {
        for link in [Link::Ethernet, Link::Raw] {
            let frame = link.frame(&[0x45; 9_000], 9_000);
            assert_eq!(frame.bytes.len(), FRAME_MOST, "{link:?}");
            assert!(frame.length >= 9_000, "{link:?}");
        }
    }
}
