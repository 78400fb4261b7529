//! The size of what the program decides about at once: usually one packet, or several that the kernel has merged. Bytes
//! are in the lower 32 bits, and the number of packets less one is in the upper ones.

/// Bits of the bytes.
const BYTES: u32 = u32::BITS;

/// The size of `packets` packets with so many bytes together.
#[inline(always)]
pub const fn of(packets: u64, bytes: u64) -> u64 {
    let most = u32::MAX as u64;
    let more = packets.saturating_sub(1);
    let more = if more < most { more } else { most };
    more << BYTES | if bytes < most { bytes } else { most }
}

/// Bytes of all packets.
#[inline(always)]
pub const fn bytes(size: u64) -> u64 {
    size & u32::MAX as u64
}

/// Number of packets.
#[inline(always)]
pub const fn packets(size: u64) -> u64 {
    (size >> BYTES) + 1
}
