//! The key of a bucket: a limit; a source's prefix or the whole interface; optionally a port or a VLAN.

use super::nat64::{self, Nat64, PREFIXES_MAX};
use crate::pod::{Pod as _, pod};

/// An address in network byte order. IPv4 is in the first four bytes, and the others are 0. Words of eight bytes,
/// because LLVM copies eight bytes at a time, and the verifier requires them to be aligned on the stack.
pub type Words = [u64; 2];

/// The words of an IPv4 address in network byte order.
#[inline(always)]
pub const fn ipv4_words(address: u32) -> Words {
    let first = address as u64;
    if cfg!(target_endian = "big") {
        [first << u32::BITS, 0]
    } else {
        [first, 0]
    }
}

/// Family of the key that stands for all sources.
pub const INTERFACE: u32 = 0;
/// Family of an IPv4 address.
pub const IPV4: u32 = 4;
/// Family of an IPv6 address.
pub const IPV6: u32 = 6;

/// Slots of limits: more than limits, so that a new limit need not take the slot of one that was just removed.
pub const SLOTS: u32 = 64;

/// The key of a bucket, in the form of the table's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceKey {
    /// The first half of the address. An IPv4 address shares the word with slot, family and port, so that one
    /// comparison tells limits apart.
    pub first: u64,
    /// The second half of an IPv6 address; 0 for other keys, and if the limit's mask omits it.
    pub rest: u64,
    /// Destination port or VLAN in bits 0-15, kind in bits 16-17, the limit's slot in bits 18-23.
    pub scope: u64,
}

pod!(SourceKey: first rest scope);

const KIND_SHIFT: u32 = 16;
const SLOT_SHIFT: u32 = KIND_SHIFT + 2;

/// Kinds in [`SourceKey::scope`]. The family keeps an IPv6 source, which may be any 128 bits, out of the bucket of an
/// IPv4 address.
const KIND_INTERFACE: u64 = 0;
const KIND_IPV4: u64 = 1;
const KIND_IPV6: u64 = 2;
/// IPv6 with a second half of the address.
const KIND_WIDE: u64 = 3;

/// Shift of the scope in the word with an IPv4 address.
const BESIDE: u32 = if cfg!(target_endian = "big") { 0 } else { 32 };

/// True if a key takes two entries, from its [`SourceKey::limit`].
#[inline(always)]
pub(crate) const fn is_wide(limit: u64) -> bool {
    limit & 3 == KIND_WIDE
}

/// The slot of the limit, from [`SourceKey::limit`].
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "of eight bits")]
pub(crate) const fn slot_in(limit: u64) -> u32 {
    (limit >> (SLOT_SHIFT - KIND_SHIFT)) as u32
}

impl SourceKey {
    /// The key of a masked address of this family, under the limit in `slot`. `port`: the destination port or the VLAN; 0 if
    /// neither is part of the key.
    #[inline(always)]
    pub const fn new(family: u32, address: Words, slot: u32, port: u32) -> Self {
        let [first, rest] = address;
        let beside = first | (((family | (slot << 8) | (port << 16)) as u64) << BESIDE);
        let (first, kind) = match family {
            IPV6 if rest != 0 => (first, KIND_WIDE),
            IPV6 => (first, KIND_IPV6),
            IPV4 => (beside, KIND_IPV4),
            _ => (beside, KIND_INTERFACE),
        };
        Self {
            first,
            rest,
            scope: port as u64 | (kind << KIND_SHIFT) | ((slot as u64) << SLOT_SHIFT),
        }
    }

    /// The key of two addresses, from their [`super::pair::words`].
    #[inline(always)]
    pub const fn of_pair([first, rest]: Words, slot: u32, port: u32) -> Self {
        Self {
            first,
            rest,
            scope: port as u64 | (KIND_WIDE << KIND_SHIFT) | ((slot as u64) << SLOT_SHIFT),
        }
    }

    #[inline(always)]
    const fn kind(&self) -> u64 {
        (self.scope >> KIND_SHIFT) & 3
    }

    /// The family: [`INTERFACE`], [`IPV4`] or [`IPV6`].
    pub const fn family(&self) -> u32 {
        match self.kind() {
            KIND_INTERFACE => INTERFACE,
            KIND_IPV4 => IPV4,
            _ => IPV6,
        }
    }

    /// The masked address.
    pub const fn address(&self) -> Words {
        match self.kind() {
            KIND_INTERFACE => [0; 2],
            KIND_IPV4 => [self.first & !((u32::MAX as u64) << BESIDE), 0],
            _ => [self.first, self.rest],
        }
    }

    /// The destination port or the VLAN; 0 if neither is part of the key, or the packet has none.
    #[inline(always)]
    pub const fn port(&self) -> u32 {
        (self.scope & 0xffff) as u32
    }

    /// Kind and slot, in bits 0-7.
    #[inline(always)]
    pub const fn limit(&self) -> u64 {
        self.scope >> KIND_SHIFT
    }

    /// True if the key takes two entries.
    #[inline(always)]
    pub const fn is_wide(&self) -> bool {
        self.rest != 0 || self.kind() == KIND_WIDE
    }

    /// Number of entries that the key takes.
    #[inline(always)]
    pub const fn entries(&self) -> u32 {
        if self.is_wide() { 2 } else { 1 }
    }

    /// The slot of its limit.
    #[inline(always)]
    pub const fn slot(&self) -> u32 {
        slot_in(self.limit())
    }
}

/// The source of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct Address {
    /// Its bytes.
    pub words: Words,
    /// [`IPV4`] or [`IPV6`].
    pub family: u32,
    /// Makes the size a multiple of eight without padding.
    pub reserved: u32,
}

pod!(Address: words family reserved);

impl Address {
    /// An IPv4 address in network byte order.
    #[inline(always)]
    pub const fn ipv4(address: u32) -> Self {
        Self {
            words: ipv4_words(address),
            family: IPV4,
            reserved: 0,
        }
    }

    /// An IPv6 address.
    #[inline(always)]
    pub const fn ipv6(words: Words) -> Self {
        Self {
            words,
            family: IPV6,
            reserved: 0,
        }
    }
}

/// Value of [`KeyMask::by`]: the source.
pub const BY_SOURCE: u32 = 0;
/// Value of [`KeyMask::by`]: the destination, under the masks of the source.
pub const BY_DESTINATION: u32 = 1;
/// Value of [`KeyMask::by`]: source and destination.
pub const BY_PAIR: u32 = 2;
/// Value of [`KeyMask::by`]: source, destination, protocol and ports.
pub const BY_FLOW: u32 = 3;

/// The parts of a packet that are part of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KeyMask {
    /// Mask of an IPv4 source.
    pub ipv4: Words,
    /// Mask of an IPv6 source.
    pub ipv6: Words,
    /// 1 if all sources share one bucket; then the masks are not used.
    pub interface: u32,
    /// The number in a key beside addresses: [`NO_NUMBER`], [`DESTINATION_PORT`] or [`VLAN`].
    pub port: u32,
    /// 1 if each link-local source has a bucket of its own, whatever the IPv6 mask.
    pub link_local: u32,
    /// [`BY_SOURCE`], [`BY_DESTINATION`], [`BY_PAIR`] or [`BY_FLOW`].
    pub by: u32,
    /// Mask of an IPv4 destination beside a source.
    pub destination_ipv4: Words,
    /// Mask of an IPv6 destination beside a source.
    pub destination_ipv6: Words,
    /// Masks of an IPv6 address that stands for an IPv4 address, by the index of its prefix in [`Nat64::prefixes`].
    pub nat64: [Words; PREFIXES_MAX],
}

pod!(KeyMask: ipv4 ipv6 interface port link_local by destination_ipv4 destination_ipv6 nat64);

/// Value of [`KeyMask::port`]: no number is part of the key.
pub const NO_NUMBER: u32 = 0;
/// Value of [`KeyMask::port`]: each destination port has a bucket of its own.
pub const DESTINATION_PORT: u32 = 1;
/// Value of [`KeyMask::port`]: each VLAN has a bucket of its own.
pub const VLAN: u32 = 2;

/// Bits of the prefix of link-local addresses, fe80::/10 (RFC 4291, section 2.4).
pub const LINK_LOCAL_BITS: u32 = 10;

/// True if an IPv6 address is link-local. All neighbours share that /64, routers too: with a shorter key than the whole
/// address, one neighbour could shut out the others. A neighbour can forge MAC addresses as easily as addresses, so a
/// MAC key would not help. The new-source limit bounds both.
#[inline(always)]
pub const fn is_link_local(words: &Words) -> bool {
    const MASK: u64 = u64::from_ne_bytes([0xff, 0xc0, 0, 0, 0, 0, 0, 0]);
    const PREFIX: u64 = u64::from_ne_bytes([0xfe, 0x80, 0, 0, 0, 0, 0, 0]);
    words[0] & MASK == PREFIX
}

impl KeyMask {
    /// Masks for prefixes of `ipv4` (0 to 32) and `ipv6` (0 to 128) bits. Addresses that stand for IPv4 addresses have the
    /// bits of IPv4 behind the well-known prefix, and are whole behind other prefixes.
    pub const fn prefixes(ipv4: u32, ipv6: u32) -> Self {
        let mut nat64 = [[u64::MAX; 2]; PREFIXES_MAX];
        nat64[0] = leading_ones(nat64::bits(WELL_KNOWN_BITS, ipv4));
        Self {
            ipv4: ipv4_words(leading_ones_32(ipv4).to_be()),
            ipv6: leading_ones(ipv6),
            nat64,
            // A shorter prefix deliberately covers more than the neighbours.
            link_local: (ipv6 > LINK_LOCAL_BITS) as u32,
            by: BY_SOURCE,
            ..Self::ZEROS
        }
    }

    /// One bucket for all sources.
    pub const fn interface() -> Self {
        Self {
            interface: 1,
            ..Self::prefixes(0, 0)
        }
    }

    /// Family and masked address of packets from `address`.
    #[inline(always)]
    pub const fn masked(&self, address: &Address, nat64: &Nat64) -> (u32, Words) {
        let [a, b] = address.words;
        if self.interface != 0 {
            (INTERFACE, [0; 2])
        } else if address.family == IPV4 {
            (IPV4, [a & self.ipv4[0], 0])
        } else if self.link_local != 0 && is_link_local(&address.words) {
            (IPV6, [a, b])
        } else {
            let mask = match nat64.find(&address.words) {
                Some(index) => &self.nat64[index],
                None => &self.ipv6,
            };
            (IPV6, [a & mask[0], b & mask[1]])
        }
    }

    /// The number in a key: 0 if none is part of it.
    #[inline(always)]
    pub const fn port_of(&self, number: u16) -> u32 {
        if self.port == NO_NUMBER {
            0
        } else {
            number as u32
        }
    }

    /// Masked destination of a key of two addresses.
    #[inline(always)]
    pub const fn masked_destination(&self, address: &Address) -> Words {
        let [a, b] = address.words;
        let mask = if address.family == IPV4 {
            &self.destination_ipv4
        } else {
            &self.destination_ipv6
        };
        [a & mask[0], b & mask[1]]
    }

    /// The key of the bucket of the limit in `slot` for packets from `address`, with this port or VLAN.
    #[inline(always)]
    pub const fn key(&self, slot: u32, address: &Address, number: u16, nat64: &Nat64) -> SourceKey {
        let number = self.port_of(number);
        let (family, address) = self.masked(address, nat64);
        SourceKey::new(family, address, slot, number)
    }
}

/// Bits of the well-known prefix of NAT64, 64:ff9b::/96 (RFC 6052, section 2.1).
pub const WELL_KNOWN_BITS: u32 = 96;

/// The mask of so many bits of an IPv6 address.
pub const fn leading_ones(bits: u32) -> Words {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = leading_ones_128(bits).to_be_bytes();
    [
        u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
    ]
}

const fn leading_ones_32(bits: u32) -> u32 {
    (leading_ones_128(bits) >> 96) as u32
}

const fn leading_ones_128(bits: u32) -> u128 {
    match u128::MAX.checked_shl(128 - bits) {
        Some(ones) => ones,
        None => 0,
    }
}
