//! The bytes of a packet.

use super::transport::size_of_header;

/// A reader of a packet's headers, from front to back.
pub trait Bytes {
    /// The next `N` bytes. None if the packet has fewer.
    fn peek<const N: usize>(&self) -> Option<&[u8; N]>;

    /// Skips `bytes` bytes. The packet may have fewer: the next read checks.
    fn skip(&mut self, bytes: usize);

    /// Whether the packet has at least `bytes` more bytes.
    fn has(&self, bytes: usize) -> bool;

    /// [`size_of_header`]. The kernel program overrides it with a separate function.
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
