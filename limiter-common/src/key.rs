//! What a bucket is kept for: a source's prefix, or the interface as a whole.

/// The key of a bucket. Five words without padding, because the kernel compares keys bytewise.
///
/// The family is part of it: an IPv6 packet may carry any 128 bits as its source, and must not be
/// able to share an IPv4 address's bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct SourceKey {
    /// [`INTERFACE`], [`IPV4`] or [`IPV6`].
    pub family: u32,
    /// The masked address in network byte order, as it stands in the packet; IPv4 in the first word.
    pub address: [u32; 4],
}

/// Family of the one key that stands for all sources.
pub const INTERFACE: u32 = 0;
/// Family of a key that is an IPv4 prefix.
pub const IPV4: u32 = 4;
/// Family of a key that is an IPv6 prefix.
pub const IPV6: u32 = 6;

impl SourceKey {
    /// The one key of a limit that does not tell sources apart.
    #[must_use]
    #[inline(always)]
    pub const fn interface() -> Self {
        Self {
            family: INTERFACE,
            address: [0; 4],
        }
    }

    /// The key of an IPv4 source; `address` and `mask` in network byte order.
    #[must_use]
    #[inline(always)]
    pub const fn ipv4(address: u32, mask: u32) -> Self {
        Self {
            family: IPV4,
            address: [address & mask, 0, 0, 0],
        }
    }

    /// The key of an IPv6 source; `address` and `mask` in network byte order.
    #[must_use]
    #[inline(always)]
    pub const fn ipv6(address: [u32; 4], mask: [u32; 4]) -> Self {
        let [a, b, c, d] = address;
        let [k, l, m, n] = mask;
        Self {
            family: IPV6,
            address: [a & k, b & l, c & m, d & n],
        }
    }
}

/// What is kept of a source address, in network byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KeyMask {
    /// 1 where the limit does not tell sources apart; the masks are not looked at then.
    pub interface: u32,
    /// Mask of an IPv4 source.
    pub ipv4: u32,
    /// Mask of an IPv6 source.
    pub ipv6: [u32; 4],
}

impl KeyMask {
    /// The masks of prefixes of `ipv4` (0 to 32) and `ipv6` (0 to 128) bits.
    #[must_use]
    pub const fn prefixes(ipv4: u32, ipv6: u32) -> Self {
        let v6 = leading_ones_128(ipv6).to_be_bytes();
        let mut words = [0; 4];
        let mut i = 0;
        while i < 4 {
            words[i] = u32::from_ne_bytes([v6[4 * i], v6[4 * i + 1], v6[4 * i + 2], v6[4 * i + 3]]);
            i += 1;
        }
        Self {
            interface: 0,
            ipv4: leading_ones_32(ipv4).to_be(),
            ipv6: words,
        }
    }

    /// One bucket for everything.
    #[must_use]
    pub const fn interface() -> Self {
        Self {
            interface: 1,
            ipv4: 0,
            ipv6: [0; 4],
        }
    }
}

const fn leading_ones_32(bits: u32) -> u32 {
    if bits == 0 {
        0
    } else {
        u32::MAX << (32 - bits)
    }
}

const fn leading_ones_128(bits: u32) -> u128 {
    if bits == 0 {
        0
    } else {
        u128::MAX << (128 - bits)
    }
}
