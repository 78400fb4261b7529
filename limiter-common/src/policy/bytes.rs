//! The bytes of a packet.

use super::transport::size_of_header;

/// Reads headers from the front of a packet, one after the other. A slice is read from its beginning.
pub trait Bytes {
    /// The next `N` bytes, or none if the packet ends within them.
    fn peek<const N: usize>(&self) -> Option<&[u8; N]>;

    /// Moves past this many bytes, whether or not the packet has them: the next read checks that.
    fn skip(&mut self, bytes: usize);

    /// Whether the packet has this many bytes from here on.
    fn has(&self, bytes: usize) -> bool;

    /// [`size_of_header`], as a function of its own if that is better.
    #[must_use]
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
}
