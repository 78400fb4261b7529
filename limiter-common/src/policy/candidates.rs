//! Finds the limits that may match a packet. Each value of a field has a word with one bit per limit. A limit with its
//! bit set in all words of the packet is a candidate. Other limits cost nothing.

use super::PacketInfo;
use crate::{
    abi::rules::{ANY, ANYWHERE, DESTINATION_PORT, Limit, Match, NONE, Range, SOURCE_PORT},
    table::key::{IPV4, IPV6},
};

/// Bits of limits by the value of one byte of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ByByte {
    /// Limits that match packets without the byte.
    pub without: u64,
    /// Limits that match packets with the byte, by its value.
    pub with: [u64; 256],
}

impl ByByte {
    const NONE: Self = Self {
        without: 0,
        with: [0; 256],
    };

    /// Bits of the limits that may match a field with this value, of which `byte` counts: all if it cannot be seen.
    #[inline(always)]
    const fn of(&self, value: u32, byte: u32) -> u64 {
        match value {
            ANY => u64::MAX,
            NONE => self.without,
            _ => self.with[(byte & 0xff) as usize],
        }
    }
}

/// Bits of limits by the fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Candidates {
    /// By [`crate::abi::rules::Match::control`].
    pub control: [u64; 2],
    /// By family: IPv4, then IPv6.
    pub family: [u64; 2],
    /// By the number of the bit in [`crate::abi::rules::Match::fragments`]; the last one is for
    /// [`crate::abi::rules::ANYWHERE`].
    pub fragments: [u64; 4],
    /// By transport protocol.
    pub protocol: ByByte,
    /// By the upper byte of the destination port.
    pub destination: ByByte,
    /// By the upper byte of the source port.
    pub source: ByByte,
    /// Limits that also use other fields: as candidates, they need not match.
    pub uncertain: u64,
}

/// Index of [`Candidates::fragments`] for [`crate::abi::rules::ANYWHERE`].
const UNSEEN: usize = (ANYWHERE >> 1) as usize;

impl Candidates {
    /// No limit.
    pub const NONE: Self = Self {
        control: [0; 2],
        family: [0; 2],
        fragments: [0; 4],
        protocol: ByByte::NONE,
        destination: ByByte::NONE,
        source: ByByte::NONE,
        uncertain: 0,
    };

    /// The candidates for at most [`crate::abi::rules::LIMITS_MAX`] limits. The first limit has bit 0.
    #[must_use]
    pub fn of(limits: &[Limit]) -> Self {
        let mut all = Self::NONE;
        for (index, limit) in limits.iter().enumerate() {
            all.add(1 << index, limit);
        }
        all
    }

    /// Bits of the limits that may match the packet. `transport`: the packet was read up to its transport header.
    #[must_use]
    #[inline(always)]
    pub const fn of_packet(&self, info: &PacketInfo, transport: bool) -> u64 {
        let of_kind = self.family[(info.source.family == IPV6) as usize]
            & self.control[(info.control != 0) as usize]
            & self.fragments[(info.fragment >> 1 & 3) as usize];
        if !transport {
            return of_kind;
        }
        let (to, from) = (info.destination_port, info.source_port);
        of_kind
            & self.protocol.of(info.protocol, info.protocol)
            & self.destination.of(to, to >> 8)
            & self.source.of(from, from >> 8)
    }

    fn add(&mut self, bit: u64, limit: &Limit) {
        let matches = &limit.matches;
        self.control[usize::from(matches.control != 0)] |= bit;
        for (family, bits) in [IPV4, IPV6].into_iter().zip(&mut self.family) {
            if matches.family == 0 || matches.family == family {
                *bits |= bit;
            }
        }
        for (place, bits) in self.fragments.iter_mut().enumerate() {
            if matches.fragments >> place & 1 != 0 || place == UNSEEN {
                *bits |= bit;
            }
        }
        add(&mut self.protocol, bit, matches.protocol == ANY, |value| {
            matches.protocol == value
        });
        add_ports(&mut self.destination, bit, matches.ranges(DESTINATION_PORT));
        add_ports(&mut self.source, bit, matches.ranges(SOURCE_PORT));
        // The words above decide these four fields.
        let decided = Match {
            control: matches.control,
            family: matches.family,
            protocol: matches.protocol,
            fragments: matches.fragments,
            ..Match::EVERYTHING
        };
        if *matches != decided || limit.except != Match::NOTHING {
            self.uncertain |= bit;
        }
    }
}

fn add(bytes: &mut ByByte, bit: u64, everything: bool, holds: impl Fn(u32) -> bool) {
    if everything {
        bytes.without |= bit;
    }
    for (value, bits) in (0..).zip(&mut bytes.with) {
        if everything || holds(value) {
            *bits |= bit;
        }
    }
}

fn add_ports(bytes: &mut ByByte, bit: u64, ranges: &[Range]) {
    add(bytes, bit, ranges.is_empty(), |upper| {
        ranges
            .iter()
            .any(|range| range.first() >> 8 <= upper && upper <= range.last() >> 8)
    });
}

/// Number of the lowest set bit; 0 if no bit is set. BPF has no instruction for this: multiplication by a de Bruijn
/// sequence gives different upper six bits for each bit.
#[must_use]
#[inline(always)]
pub const fn lowest(bits: u64) -> u32 {
    LOWEST[((bits & bits.wrapping_neg()).wrapping_mul(SEQUENCE) >> 58) as usize] as u32
}

/// De Bruijn sequence: each six consecutive bits occur once.
const SEQUENCE: u64 = 0x0218_a392_cd3d_5dbf;

static LOWEST: [u8; 64] = {
    let mut numbers = [0; 64];
    let mut bit = 0_u8;
    while bit < 64 {
        numbers[((1_u64 << bit).wrapping_mul(SEQUENCE) >> 58) as usize] = bit;
        bit += 1;
    }
    numbers
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_returns_the_lowest_set_bit() {
        for low in 0..64 {
            for high in low..64 {
                assert_eq!(lowest(1 << low | 1 << high), low);
            }
        }
    }
}
