//! What a bucket is kept for: a limit, and a source's prefix or the interface as a whole, and perhaps
//! a port.

/// The key of a bucket. Five words without padding, because the kernel compares keys bytewise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct SourceKey {
    /// Family in bits 0-7, the limit's slot in bits 8-15, destination port in bits 16-31.
    ///
    /// The family is part of it: an IPv6 packet may carry any 128 bits as its source, and must not be
    /// able to share an IPv4 address's bucket.
    pub scope: u32,
    /// The masked address in network byte order, as it stands in the packet; IPv4 in the first word.
    pub address: [u32; 4],
}

/// Family of the one key that stands for all sources.
pub const INTERFACE: u32 = 0;
/// Family of an IPv4 address.
pub const IPV4: u32 = 4;
/// Family of an IPv6 address.
pub const IPV6: u32 = 6;

/// Slots of limits: more than there may be limits, so that a new one need not take the place of one
/// that has just gone.
pub const SLOTS: u32 = 64;

impl SourceKey {
    /// [`INTERFACE`], [`IPV4`] or [`IPV6`].
    #[must_use]
    pub const fn family(&self) -> u32 {
        self.scope & 0xff
    }

    /// The slot of its limit.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        (self.scope >> 8) & 0xff
    }

    /// The destination port; 0 where that is not part of the key, or the packet has none.
    #[must_use]
    pub const fn port(&self) -> u32 {
        self.scope >> 16
    }
}

/// The source of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Address {
    /// [`IPV4`] or [`IPV6`].
    pub family: u32,
    /// In network byte order, as it stands in the packet; IPv4 in the first word, the others 0.
    pub words: [u32; 4],
}

impl Address {
    /// An IPv4 address in network byte order.
    #[must_use]
    #[inline(always)]
    pub const fn ipv4(address: u32) -> Self {
        Self {
            family: IPV4,
            words: [address, 0, 0, 0],
        }
    }

    /// An IPv6 address in network byte order.
    #[must_use]
    #[inline(always)]
    pub const fn ipv6(words: [u32; 4]) -> Self {
        Self {
            family: IPV6,
            words,
        }
    }
}

/// What is kept of a source address, in network byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KeyMask {
    /// 1 where the limit does not tell sources apart; the masks are not looked at then.
    pub interface: u32,
    /// 1 where each destination port has a bucket of its own.
    pub port: u32,
    /// Mask of an IPv4 source.
    pub ipv4: u32,
    /// Mask of an IPv6 source.
    pub ipv6: [u32; 4],
    /// Makes the size a multiple of eight without padding.
    pub reserved: u32,
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
            port: 0,
            ipv4: leading_ones_32(ipv4).to_be(),
            ipv6: words,
            reserved: 0,
        }
    }

    /// One bucket for everything.
    #[must_use]
    pub const fn interface() -> Self {
        Self {
            interface: 1,
            port: 0,
            ipv4: 0,
            ipv6: [0; 4],
            reserved: 0,
        }
    }

    /// The key under which a limit in `slot` keeps packets from `address` to `port`.
    #[must_use]
    #[inline(always)]
    pub const fn key(&self, slot: u32, address: &Address, port: u16) -> SourceKey {
        let port = if self.port != 0 { port as u32 } else { 0 };
        let scope = (slot << 8) | (port << 16);
        let [a, b, c, d] = address.words;
        let [k, l, m, n] = self.ipv6;
        if self.interface != 0 {
            SourceKey {
                scope: scope | INTERFACE,
                address: [0; 4],
            }
        } else if address.family == IPV4 {
            SourceKey {
                scope: scope | IPV4,
                address: [a & self.ipv4, 0, 0, 0],
            }
        } else {
            SourceKey {
                scope: scope | IPV6,
                address: [a & k, b & l, c & m, d & n],
            }
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
