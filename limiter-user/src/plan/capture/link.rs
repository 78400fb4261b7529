//! The framing of captured packets, and the Ethernet frame that a driver would have shown.

use std::mem::offset_of;

use limiter_config::Direction;
use network_types::eth::EthHdr;

use super::{
    framing::{IPV4, IPV6, NOTHING, of_family, ppp, type_at},
    wireless,
};

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
    /// The 4 bytes of BSD loopback and tunnel interfaces: an address family in any byte order.
    Loopback,
    /// PPP or Cisco HDLC.
    Ppp,
    /// PPP behind a byte that says the direction.
    DirectedPpp,
    /// IEEE 802.11.
    Wireless,
    /// IEEE 802.11 behind a radiotap header.
    Radiotap,
}

/// Maximum bytes of a frame that are read: the minimum that drivers show of a frame in several buffers, and the
/// maximum of the kernel's test-run.
pub const FRAME_MOST: usize = 3_072;

const ETHERNET: usize = EthHdr::LEN;
const TYPE_AT: usize = offset_of!(EthHdr, ether_type);

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
            0 | 108 => Some(Self::Loopback),
            1 => Some(Self::Ethernet),
            9 | 50 | 104 => Some(Self::Ppp),
            12 | 14 | 101 | 228 | 229 => Some(Self::Raw),
            105 => Some(Self::Wireless),
            113 => Some(Self::Cooked),
            127 => Some(Self::Radiotap),
            166 | 204 => Some(Self::DirectedPpp),
            276 => Some(Self::Cooked2),
            _ => None,
        }
    }

    /// The length of the framing, and the Ethernet type of what these bytes carry behind it.
    fn carries(self, bytes: &[u8]) -> (usize, u16) {
        match self {
            Self::Ethernet => (ETHERNET, type_at(bytes, TYPE_AT)),
            Self::Cooked => (16, type_at(bytes, 14)),
            Self::Cooked2 => (20, type_at(bytes, 0)),
            // A packet that is neither counts as IPv4, and is malformed.
            Self::Raw => match bytes.first() {
                Some(first) if first >> 4 == 6 => (0, IPV6),
                _ => (0, IPV4),
            },
            Self::Loopback => (4, of_family(bytes)),
            Self::Ppp => ppp(bytes),
            Self::DirectedPpp => {
                let (size, carries) = ppp(bytes.get(1..).unwrap_or_default());
                (1 + size, carries)
            }
            Self::Wireless => wireless::carries(bytes, false),
            Self::Radiotap => wireless::behind_radiotap(bytes),
        }
    }

    /// Number of bytes behind the packet that are its checksum, according to the framing.
    pub(super) fn checksum(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Radiotap => wireless::checksum(bytes),
            _ => 0,
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

    /// The direction of the packet, if the framing says it. Packets between other hosts arrive, too.
    pub(super) fn direction(self, bytes: &[u8]) -> Option<Direction> {
        const OUTGOING: u16 = 4;
        let kind = match self {
            Self::Cooked => type_at(bytes.get(..2)?, 0),
            Self::Cooked2 => (*bytes.get(10)?).into(),
            Self::DirectedPpp if *bytes.first()? == 0 => 0,
            Self::DirectedPpp => OUTGOING,
            _ => return None,
        };
        match kind {
            0..OUTGOING => Some(Direction::In),
            OUTGOING => Some(Direction::Out),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use limiter_config::Direction;

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
            (Link::Loopback, &[0, 0, 0, 2], &v4, 104, 0x0800, 114),
            (Link::Loopback, &[2, 0, 0, 0], &v4, 104, 0x0800, 114),
            (Link::Loopback, &[30, 0, 0, 0], &v6, 104, 0x86dd, 114),
            (Link::Loopback, &[0, 0, 0, 24], &v6, 104, 0x86dd, 114),
            (Link::Loopback, &[0, 0, 0x86, 0xdd], &v6, 104, 0x86dd, 114),
            (Link::Loopback, &[0, 0, 0, 7], &v4, 104, 0, 114),
            (Link::Loopback, &[0, 0, 2], none, 3, 0, 14),
            (Link::Ppp, &[0xff, 3, 0, 0x21], &v4, 104, 0x0800, 114),
            (Link::Ppp, &[0, 0x57], &v6, 102, 0x86dd, 114),
            (Link::Ppp, &[0x21], &v4, 101, 0x0800, 114),
            (Link::Ppp, &[0xff, 3, 0xc0, 0x21], &v4, 104, 0, 114),
            (Link::Ppp, &[0x0f, 0, 8, 0], &v4, 104, 0x0800, 114),
            (Link::Ppp, none, none, 0, 0, 14),
            (
                Link::DirectedPpp,
                &[1, 0xff, 3, 0, 0x21],
                &v4,
                105,
                0x0800,
                114,
            ),
            (Link::DirectedPpp, none, none, 0, 0, 14),
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

    #[test]
    fn framing_says_the_direction() {
        let (cooked, cooked2) = (
            |kind| header(16, 1, &[kind]),
            |kind| header(20, 10, &[kind]),
        );
        let (inward, outward) = (Some(Direction::In), Some(Direction::Out));
        for (kind, wanted) in [(0, inward), (3, inward), (4, outward), (5, None)] {
            assert_eq!(Link::Cooked.direction(&cooked(kind)), wanted, "{kind}");
            assert_eq!(Link::Cooked2.direction(&cooked2(kind)), wanted, "{kind}");
        }
        assert_eq!(Link::Cooked.direction(&[0]), None);
        assert_eq!(Link::DirectedPpp.direction(&[0, 0x21]), inward);
        assert_eq!(Link::DirectedPpp.direction(&[1, 0x21]), outward);
        assert_eq!(Link::Ethernet.direction(&[0; 20]), None);
    }
}
