//! The packets that a merged packet becomes on the wire: all packets that receive offload has merged, or that the
//! interface or the kernel will make of it.
//!
//! The kernel says how much payload each of them has, but not what it takes for headers. So the headers are walked. If
//! several answers are possible, the largest counts.

use core::num::{NonZeroU32, NonZeroU64};

use network_types::sctp::SctpHdr;

use super::{
    headers::{Header, Headers, PAYLOAD, UDP_HEADER, UNKNOWN, number},
    protocols::{SCTP, TCP, UDP, length},
};
use crate::arithmetic::size;

/// The most headers that are walked. The kernel can segment longer chains, which count as the most that they can become.
const HEADERS_MAX: u32 = 32;
/// [`Merged::segment_size`] of SCTP: each packet has a size of its own (`GSO_BY_FRAGS`, include/linux/skbuff.h).
const BY_FRAGMENTS: u32 = 0xffff;
/// Bytes of an SCTP header.
const SCTP_HEADER: u32 = length(SctpHdr::LEN);
/// Bytes that the kernel adds to each fragment of an IPv6 packet.
const FRAGMENT_HEADER: u32 = 8;
/// Bytes of the header that the kernel removes from segments of packets longer than 64 KiB.
const JUMBO_HEADER: u32 = 8;
/// Bytes that encryption adds to each packet at most: padding and its length, next header, and checksum.
const ESP_TRAILER: u32 = 64;

/// The kernel's facts about a merged packet.
#[derive(Clone, Copy, Debug)]
pub struct Merged {
    /// Bytes of the packet.
    pub length: u32,
    /// Bytes of payload of each packet but the last (`gso_size`).
    pub segment_size: NonZeroU32,
    /// Number of packets, modulo 2^16 (`gso_segs`). 0: unknown, as for packets of virtual machines.
    pub segment_count: u32,
}

/// Number and bytes of packets: the most of several answers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Most {
    packets: u64,
    bytes: u64,
}

impl Most {
    #[inline(always)]
    const fn or(&mut self, other: Self) {
        if self.packets < other.packets {
            self.packets = other.packets;
        }
        if self.bytes < other.bytes {
            self.bytes = other.bytes;
        }
    }
}

/// A walk along the headers: the next one, and the answers found until now.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Walk {
    header: u64,
    /// The answers that agree with [`Merged::segment_count`].
    agreeing: Most,
    all: Most,
}

impl Walk {
    #[inline(always)]
    const fn size(&self) -> u64 {
        let most = match self.agreeing.packets {
            0 => self.all,
            _ => self.agreeing,
        };
        size::of(most.packets, most.bytes)
    }
}

impl Merged {
    /// The [`size`] of the packets. `first` is the packet's first header.
    #[inline(always)]
    pub fn size(&self, first: Header, headers: &impl Headers) -> u64 {
        let mut walk = Walk {
            header: first.to_word(),
            ..Walk::default()
        };
        for _ in 0..HEADERS_MAX {
            if headers.step(self, &mut walk) {
                return walk.size();
            }
        }
        walk.header = Header::from_word(walk.header).unknown().to_word();
        headers.step(self, &mut walk);
        walk.size()
    }

    /// Goes on to the next header. Returns true at the end of the walk.
    #[inline(always)]
    pub fn step(&self, walk: &mut Walk, headers: &impl Headers) -> bool {
        let header = Header::from_word(walk.header);
        match header.kind {
            TCP => {
                let end = header.offset + tcp_length(header.offset, headers);
                let removed = if header.is_jumbo { JUMBO_HEADER } else { 0 };
                self.answer(walk, end, 0, removed);
                return true;
            }
            SCTP if self.is_by_fragments() && self.segment_count != 0 => {
                walk.agreeing
                    .or(self.with(self.segment_count, header.offset + SCTP_HEADER, 0, 0));
                return true;
            }
            UDP => {
                // Segments with UDP headers of their own, or fragments of one datagram, which have one together.
                self.answer(walk, header.offset + UDP_HEADER, 0, 0);
                let added = if header.is_ipv6 { FRAGMENT_HEADER } else { 0 };
                self.answer(walk, header.offset, added, 0);
            }
            // Other numbers of packets belong to a tunnel that is not known.
            PAYLOAD if self.segment_count == 0 || walk.agreeing.packets != 0 => return true,
            PAYLOAD | UNKNOWN => {
                // Behind a UDP header, the sender may have made the unknown header up: what was found until now counts.
                if walk.agreeing.packets == 0 {
                    walk.agreeing = walk.all;
                }
                walk.agreeing.or(self.at_most(header));
                return true;
            }
            _ => {}
        }
        walk.header = headers.next(walk.header);
        false
    }

    #[inline(always)]
    const fn is_by_fragments(&self) -> bool {
        self.segment_size.get() == BY_FRAGMENTS
    }

    /// Adds what the packet becomes if each packet has this many bytes of headers, of which segments lack `removed`, and
    /// gets `added` bytes more.
    #[inline(always)]
    fn answer(&self, walk: &mut Walk, headers: u32, added: u32, removed: u32) {
        let payload = self.length.saturating_sub(headers);
        let packets = ((payload + self.segment_size.get() - 1) / self.segment_size).max(1);
        if self.segment_count != 0 && (self.segment_count ^ packets) & 0xffff == 0 {
            let most = self.with(packets, headers, added, removed);
            walk.agreeing.or(most);
        }
        // Some drivers know the number of packets only, and guess their size.
        let packets = packets.max(self.segment_count);
        walk.all.or(self.with(packets, headers, added, removed));
    }

    #[inline(always)]
    fn with(&self, packets: u32, headers: u32, added: u32, removed: u32) -> Most {
        let all = u64::from(packets);
        let copied = (all - 1) * u64::from(headers);
        let bytes = u64::from(self.length) + copied + all * u64::from(added);
        Most {
            packets: all,
            bytes: bytes - all * u64::from(removed),
        }
    }

    /// The most that the packet can become if this header and those behind it are unknown.
    #[inline(always)]
    fn at_most(&self, header: Header) -> Most {
        let length = u64::from(self.length);
        let segment = match self.is_by_fragments() {
            true => NonZeroU64::MIN,
            false => NonZeroU64::from(self.segment_size),
        };
        let known = u64::from(header.offset.min(self.length));
        let most = ((length - known + segment.get() - 1) / segment).max(2);
        // With n packets, at least (n - 1) × segment bytes and one more are payload, so all others may be headers.
        let headers = |more: u64| length.saturating_sub(more * segment.get() + 1).max(known);
        let count = u64::from(self.segment_count);
        let (packets, copied) = if self.is_by_fragments() && count != 0 {
            (count, (count - 1) * headers(count - 1))
        } else if count > 1 && most <= u64::from(u16::MAX) {
            let packets = most.max(count);
            (packets, (packets - 1) * headers(count - 1))
        } else {
            // The longer the headers, the fewer packets. About half of the bytes are headers where the sum is largest.
            let more = (length / segment / 2).max(1).min(most - 1);
            let next = (more + 1).min(most - 1);
            (most, (more * headers(more)).max(next * headers(next)))
        };
        let added = match header.is_encrypted {
            true => ESP_TRAILER,
            false => FRAGMENT_HEADER,
        };
        Most {
            packets,
            bytes: length + copied + packets * u64::from(added),
        }
    }
}

/// Bytes of the TCP header at this offset.
#[inline(always)]
fn tcp_length(offset: u32, headers: &impl Headers) -> u32 {
    let word = headers.bytes(offset + 8).unwrap_or(0);
    // The kernel refuses to cut a packet with a shorter one.
    (number(word, 32, 4) * 4).max(20)
}

/// Bytes up to the end of the first transport header of a packet. None if it is unknown.
#[inline(always)]
pub fn end_of_transport(first: Header, headers: &impl Headers) -> Option<u32> {
    let mut word = first.to_word();
    for _ in 0..HEADERS_MAX {
        let header = Header::from_word(word);
        match header.kind {
            TCP => return Some(header.offset + tcp_length(header.offset, headers)),
            UDP => return Some(header.offset + UDP_HEADER),
            SCTP => return Some(header.offset + SCTP_HEADER),
            UNKNOWN => return None,
            _ => word = headers.next(word),
        }
    }
    None
}
