//! The bytes of a packet.

use network_types::eth::EthHdr;

use super::{
    parse::{self, ethernet},
    transport::size_of_header,
};
use crate::abi::rules::{PATTERN_MAX, PAYLOAD_MAX};

/// Words of a payload's first bytes, and one more, so that a pattern may begin at each byte.
pub const WORDS: usize = PAYLOAD_MAX / PATTERN_MAX + 1;

/// The sender's address in an Ethernet header.
#[inline(always)]
pub fn sender(header: &[u8; EthHdr::LEN]) -> Option<&[u8; 6]> {
    header.last_chunk::<8>()?.first_chunk()
}

/// A reader of a packet's headers, from front to back.
pub trait Bytes {
    /// True if a packet without tags is told apart from the others before its tags are read, which saves it a few
    /// instructions of the processor. The kernel's verifier then follows the rest of the program once more.
    const UNTAGGED_FIRST: bool = true;

    /// Moves from the beginning of the frame to behind its link-layer header. Returns the EtherType, in network byte
    /// order; None if the header is truncated.
    #[inline(always)]
    fn ether_type(&mut self) -> Option<u16>
    where
        Self: Sized,
    {
        ethernet(self)
    }

    /// The hardware address of the frame's sender, at the beginning of the frame. None without an Ethernet header.
    #[inline(always)]
    fn sender(&self) -> Option<&[u8; 6]> {
        sender(self.peek()?)
    }

    /// The next `N` bytes. None if the packet has fewer.
    fn peek<const N: usize>(&self) -> Option<&[u8; N]>;

    /// Skips `bytes` bytes. The packet may have fewer: the next read checks.
    fn skip(&mut self, bytes: usize);

    /// True if the packet has at least `bytes` more bytes.
    fn has(&self, bytes: usize) -> bool;

    /// Bytes from here to the end of the packet.
    fn remaining(&self) -> usize;

    /// Copies the next bytes: as many as there are, but at most `most`, which is at most [`PAYLOAD_MAX`]. Returns their
    /// number.
    fn copy(&self, into: &mut [u64; WORDS], most: u32) -> u32;

    /// [`parse::vlan`] of a packet from its link-layer header on. The kernel program overrides it with a separate function,
    /// which knows the tag that is beside the frame.
    #[inline(always)]
    fn vlan(mut self) -> u32
    where
        Self: Sized,
    {
        parse::vlan(&mut self, 0)
    }

    /// [`size_of_header`]. The kernel program overrides it with a separate function.
    #[inline(always)]
    fn size_of_header(kind: u32, length: u32) -> u32 {
        size_of_header(kind, length)
    }
}

impl Bytes for &[u8] {
    fn peek<const N: usize>(&self) -> Option<&[u8; N]> {
        self.first_chunk()
    }

    fn skip(&mut self, bytes: usize) {
        *self = self.get(bytes..).unwrap_or_default();
    }

    fn has(&self, bytes: usize) -> bool {
        self.len() >= bytes
    }

    fn remaining(&self) -> usize {
        self.len()
    }

    fn copy(&self, into: &mut [u64; WORDS], most: u32) -> u32 {
        let most = self.len().min(most as usize).min(PAYLOAD_MAX);
        let words = into.iter_mut().zip(self[..most].chunks(PATTERN_MAX));
        for (word, bytes) in words {
            *word = u64::from_ne_bytes(core::array::from_fn(|index| {
                bytes.get(index).copied().unwrap_or(0)
            }));
        }
        u32::try_from(most).unwrap_or(0)
    }
}
