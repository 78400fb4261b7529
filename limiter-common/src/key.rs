//! What a bucket is kept for: a limit, and a source's prefix or the interface as a whole, and perhaps
//! a port.

use crate::bucket::REST;

/// An address as it stands in a packet, in network byte order; IPv4 in the first four bytes, the others
/// 0. Words of eight bytes, because LLVM copies so many at a time, and the verifier wants them aligned on
/// the stack.
pub type Words = [u64; 2];

/// The words of an IPv4 address in network byte order.
#[must_use]
#[inline(always)]
pub const fn ipv4_words(address: u32) -> Words {
    let first = address as u64;
    if cfg!(target_endian = "big") {
        [first << u32::BITS, 0]
    } else {
        [first, 0]
    }
}

/// The key of a bucket, without padding, because the kernel compares keys bytewise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct SourceKey {
    /// The masked address.
    pub address: Words,
    /// Family in bits 0-7, the limit's slot in bits 8-15, destination port in bits 16-31.
    ///
    /// The family is part of it: an IPv6 packet may carry any 128 bits as its source, and must not be
    /// able to share an IPv4 address's bucket.
    pub scope: u32,
    /// Makes the size a multiple of eight without padding.
    pub reserved: u32,
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
    #[inline(always)]
    pub const fn family(&self) -> u32 {
        self.scope & 0xff
    }

    /// The slot of its limit.
    #[must_use]
    #[inline(always)]
    pub const fn slot(&self) -> u32 {
        (self.scope >> 8) & 0xff
    }

    /// The destination port; 0 where that is not part of the key, or the packet has none.
    #[must_use]
    #[inline(always)]
    pub const fn port(&self) -> u32 {
        self.scope >> 16
    }
}

/// A key, as it stands in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Bits 0-31: the address of IPv4, or the four words of one of IPv6 folded into one. Bits 32-47: the
    /// destination port. Bits 48-53: the limit's slot. Bits 54-55: the family. The rest is not the key's.
    pub head: u64,
    /// The second half of an address of IPv6.
    pub middle: u64,
    /// The second word of an address of IPv6, in bits 2-33, and [`REST`] below it; 0 for all other keys.
    pub tail: u64,
}

const PORT_SHIFT: u32 = 32;
const SLOT_SHIFT: u32 = 48;
const FAMILY_SHIFT: u32 = 54;
const TAIL_SHIFT: u32 = 2;

/// Bits of a word above those of [`Tag::head`].
pub const BEYOND_HEAD: u32 = 8;

const TAG_INTERFACE: u64 = 0;
const TAG_IPV4: u64 = 1;
const TAG_IPV6: u64 = 2;

#[inline(always)]
const fn family_in(head: u64) -> u64 {
    (head >> FAMILY_SHIFT) & 3
}

/// Whether a key with this head takes two entries.
#[must_use]
#[inline(always)]
pub const fn is_wide(head: u64) -> bool {
    family_in(head) == TAG_IPV6
}

/// The slot of the limit in a [`Tag::head`].
#[must_use]
#[inline(always)]
pub const fn slot_in(head: u64) -> u32 {
    (head >> SLOT_SHIFT) as u32 % SLOTS
}

/// The two halves of a word, in the order in which they stand in memory.
#[inline(always)]
const fn halves(word: u64) -> (u64, u64) {
    let (low, high) = (word as u32 as u64, word >> u32::BITS);
    if cfg!(target_endian = "big") {
        (high, low)
    } else {
        (low, high)
    }
}

const fn whole(first: u64, second: u64) -> u64 {
    if cfg!(target_endian = "big") {
        first << u32::BITS | second
    } else {
        second << u32::BITS | first
    }
}

impl Tag {
    /// Whether it takes two entries.
    #[must_use]
    #[inline(always)]
    pub const fn is_wide(&self) -> bool {
        self.tail != 0
    }

    /// The key.
    #[must_use]
    pub const fn key(&self) -> SourceKey {
        let port = ((self.head >> PORT_SHIFT) & 0xffff) as u32;
        let folded = self.head as u32 as u64;
        let (family, address) = match family_in(self.head) {
            TAG_INTERFACE => (INTERFACE, [0; 2]),
            TAG_IPV4 => (IPV4, [whole(folded, 0), 0]),
            _ => {
                let (third, fourth) = halves(self.middle);
                let second = self.tail >> TAIL_SHIFT;
                let first = folded ^ second ^ third ^ fourth;
                (IPV6, [whole(first, second), self.middle])
            }
        };
        SourceKey {
            address,
            scope: family | (slot_in(self.head) << 8) | (port << 16),
            reserved: 0,
        }
    }
}

impl SourceKey {
    /// As it stands in the table.
    #[must_use]
    #[inline(always)]
    pub const fn tag(&self) -> Tag {
        let [start, middle] = self.address;
        let (first, second) = halves(start);
        let scope = ((self.port() as u64) << PORT_SHIFT) | ((self.slot() as u64) << SLOT_SHIFT);
        if self.family() != IPV6 {
            let family = if self.family() == IPV4 {
                TAG_IPV4
            } else {
                TAG_INTERFACE
            };
            return Tag {
                head: first | scope | (family << FAMILY_SHIFT),
                middle: 0,
                tail: 0,
            };
        }
        let (third, fourth) = halves(middle);
        let folded = first ^ second ^ third ^ fourth;
        Tag {
            head: folded | scope | (TAG_IPV6 << FAMILY_SHIFT),
            middle,
            tail: (second << TAIL_SHIFT) | REST,
        }
    }
}

/// The source of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Address {
    /// Its bytes.
    pub words: Words,
    /// [`IPV4`] or [`IPV6`].
    pub family: u32,
    /// Makes the size a multiple of eight without padding.
    pub reserved: u32,
}

impl Address {
    /// An IPv4 address in network byte order.
    #[must_use]
    #[inline(always)]
    pub const fn ipv4(address: u32) -> Self {
        Self {
            words: ipv4_words(address),
            family: IPV4,
            reserved: 0,
        }
    }

    /// An IPv6 address.
    #[must_use]
    #[inline(always)]
    pub const fn ipv6(words: Words) -> Self {
        Self {
            words,
            family: IPV6,
            reserved: 0,
        }
    }
}

/// What is kept of a source address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KeyMask {
    /// Mask of an IPv4 source.
    pub ipv4: Words,
    /// Mask of an IPv6 source.
    pub ipv6: Words,
    /// 1 where the limit does not tell sources apart; the masks are not looked at then.
    pub interface: u32,
    /// 1 where each destination port has a bucket of its own.
    pub port: u32,
}

impl KeyMask {
    /// The masks of prefixes of `ipv4` (0 to 32) and `ipv6` (0 to 128) bits.
    #[must_use]
    pub const fn prefixes(ipv4: u32, ipv6: u32) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = leading_ones_128(ipv6).to_be_bytes();
        Self {
            ipv4: ipv4_words(leading_ones_32(ipv4).to_be()),
            ipv6: [
                u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
            ],
            interface: 0,
            port: 0,
        }
    }

    /// One bucket for everything.
    #[must_use]
    pub const fn interface() -> Self {
        Self {
            ipv4: [0; 2],
            ipv6: [0; 2],
            interface: 1,
            port: 0,
        }
    }

    /// The key under which a limit in `slot` keeps packets from `address` to `port`.
    #[must_use]
    #[inline(always)]
    pub const fn key(&self, slot: u32, address: &Address, port: u16) -> SourceKey {
        let port = if self.port != 0 { port as u32 } else { 0 };
        let scope = (slot << 8) | (port << 16);
        let [a, b] = address.words;
        let (family, address) = if self.interface != 0 {
            (INTERFACE, [0; 2])
        } else if address.family == IPV4 {
            (IPV4, [a & self.ipv4[0], 0])
        } else {
            (IPV6, [a & self.ipv6[0], b & self.ipv6[1]])
        };
        SourceKey {
            address,
            scope: scope | family,
            reserved: 0,
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
