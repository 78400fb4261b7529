//! The first bytes of a packet's payload.

use super::{Bytes, PacketInfo};
use crate::abi::rules::{ANY, PATTERN_MAX, PAYLOAD_MAX, WHOLE};

/// Words of a payload's first bytes, and one more, so that a pattern may begin at each byte.
pub const WORDS: usize = PAYLOAD_MAX / PATTERN_MAX + 1;

/// The first bytes of a packet's payload, behind the TCP or UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Payload {
    /// The bytes; those behind `length` are undefined.
    pub words: [u64; WORDS],
    /// Number of bytes, at most [`PAYLOAD_MAX`].
    pub length: u32,
    /// 1: more bytes may follow in other fragments, or the transport header cannot be seen.
    pub hidden: u32,
}

impl Payload {
    /// No payload.
    pub const NONE: Self = Self {
        words: [0; WORDS],
        length: 0,
        hidden: 0,
    };

    /// The eight bytes from `offset` on, in the order of memory.
    #[must_use]
    #[inline(always)]
    pub fn word(&self, offset: u32) -> u64 {
        let offset = offset as usize % PAYLOAD_MAX;
        let (index, shift) = (offset / PATTERN_MAX, offset % PATTERN_MAX * 8);
        let word = |index: usize| self.words.get(index).map_or(0, |word| u64::from_be(*word));
        let (first, second) = (word(index), word(index + 1));
        // Twice: a shift by 64 bits is undefined.
        (first << shift | second >> 1 >> (63 - shift)).to_be()
    }

    /// Reads the payload of a packet that is at its transport header. `header`: bytes that the packet has had from its
    /// IP header to the transport header.
    #[inline(always)]
    pub fn read<B: Bytes>(&mut self, packet: &mut B, info: &PacketInfo, header: u32) {
        const TCP: u32 = 6;
        const UDP: u32 = 17;
        (self.length, self.hidden) = (0, (info.fragment != WHOLE || info.protocol == ANY).into());
        let size = match info.protocol {
            _ if info.source_port == ANY => return,
            UDP => 8,
            // The upper four bits of this byte count words of four bytes.
            TCP => match packet.peek::<13>() {
                Some(header) => u32::from(header[12] >> 4) << 2,
                None => return,
            },
            _ => return,
        };
        packet.skip(size as usize);
        // Padding of a short frame is not payload.
        if let Some(length) = info.length.checked_sub(header + size) {
            self.length = packet.copy(&mut self.words, length);
        }
    }
}
