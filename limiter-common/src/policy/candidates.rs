//! Finds the limits that may match a packet. Each value of a field has a word with one bit per limit. A limit with its
//! bit set in all words of the packet is a candidate. Other limits cost nothing.

use super::{
    PacketInfo,
    bits::{ByByte, ByPort},
};
use crate::{
    abi::rules::{
        ANY, ANYWHERE, CONTROL_KINDS, DESTINATION_PORT, Limit, Match, OF_CONNECTIONS, OF_OTHERS,
        SOURCE_PORT,
    },
    pod::pod,
    table::key::{IPV4, IPV6},
};

// Bits of `Candidates::fields`.
const CONTROL: u32 = 1 << 0;
const FAMILY: u32 = 1 << 1;
const FRAGMENTS: u32 = 1 << 2;
const PROTOCOL: u32 = 1 << 3;
const FLAGS: u32 = 1 << 4;
const TO: u32 = 1 << 5;
const FROM: u32 = 1 << 6;

/// Bits of limits by the fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Candidates {
    /// Bits of all limits.
    pub all: u64,
    /// Fields that limits use. The verifier removes the code for the others.
    pub fields: u32,
    /// 0, for the alignment.
    pub reserved: u32,
    /// By the [`CONTROL_KINDS`] of a packet, which has one of them at most.
    pub control: [u64; 4],
    /// By family: IPv4, then IPv6.
    pub family: [u64; 2],
    /// By the number of the bit in [`crate::abi::rules::Match::fragments`]; the last one is for
    /// [`crate::abi::rules::ANYWHERE`].
    pub fragments: [u64; 4],
    /// By transport protocol.
    pub protocol: ByByte,
    /// By TCP flags.
    pub flags: ByByte,
    /// By destination port.
    pub destination: ByPort,
    /// By source port.
    pub source: ByPort,
    /// Limits that match sources on no list.
    pub unlisted: u64,
    /// Limits that use the lists of the source.
    pub by_list: u64,
    /// Limits that also use other fields: as candidates, they need not match.
    pub uncertain: u64,
    /// Limits that match only packets of established connections.
    pub of_connections: u64,
    /// Limits that match only other packets.
    pub of_others: u64,
    /// Limits that match only packets that no limit outside of this set matches.
    pub of_rest: u64,
}

pod!(Candidates: all fields reserved control family fragments protocol flags destination source unlisted by_list
    uncertain of_connections of_others of_rest);

/// Index of [`Candidates::fragments`] for [`crate::abi::rules::ANYWHERE`].
const UNSEEN: usize = (ANYWHERE >> 1) as usize;

impl Candidates {
    /// Adds at most [`crate::abi::rules::LIMITS_MAX`] limits to blank candidates. The first limit has bit 0.
    pub fn fill(&mut self, limits: &[Limit]) {
        for (index, limit) in limits.iter().enumerate() {
            self.add(1 << index, limit);
        }
        self.uncertain |= self.destination.add(limits, DESTINATION_PORT);
        self.uncertain |= self.source.add(limits, SOURCE_PORT);
    }

    /// Bits of the limits that may match the packet, whose source is on these lists. `transport`: the packet was read up
    /// to its transport header.
    #[inline(always)]
    pub const fn of_packet(&self, info: &PacketInfo, lists: u32, transport: bool) -> u64 {
        let mut found = self.all;
        if self.by_list != 0 && lists == 0 {
            found &= self.unlisted;
        }
        if self.fields & FAMILY != 0 {
            found &= self.family[(info.source.family == IPV6) as usize];
        }
        if self.fields & CONTROL != 0 {
            found &= self.control[(info.control & CONTROL_KINDS) as usize];
        }
        if self.fields & FRAGMENTS != 0 {
            found &= self.fragments[(info.fragment >> 1 & 3) as usize];
        }
        if !transport {
            return found;
        }
        if self.fields & PROTOCOL != 0 {
            found &= self.protocol.of(info.protocol, info.protocol);
        }
        if self.fields & FLAGS != 0 {
            found &= self.flags.of(info.flags, info.flags);
        }
        if self.fields & TO != 0 {
            found &= self.destination.of(info.destination_port);
        }
        if self.fields & FROM != 0 {
            found &= self.source.of(info.source_port);
        }
        found
    }

    /// Bits of the limits that, as candidates, need not match a packet whose source is on these lists.
    #[inline(always)]
    pub const fn uncertain(&self, lists: u32) -> u64 {
        if lists == 0 {
            self.uncertain
        } else {
            self.uncertain | self.by_list
        }
    }

    /// Bits of the limits for which it matters whether a packet belongs to an established connection.
    #[inline(always)]
    pub const fn by_connection(&self) -> u64 {
        self.of_connections | self.of_others
    }

    fn add(&mut self, bit: u64, limit: &Limit) {
        let matches = &limit.matches;
        self.all |= bit;
        match matches.established {
            OF_CONNECTIONS => self.of_connections |= bit,
            OF_OTHERS => self.of_others |= bit,
            _ => {}
        }
        if matches.other != 0 {
            self.of_rest |= bit;
        }
        if matches.lists == 0 {
            self.unlisted |= bit;
        }
        if matches.lists | matches.unless != 0 {
            self.by_list |= bit;
        }
        for (used, field) in [
            (matches.control != 0, CONTROL),
            (matches.family != 0, FAMILY),
            (matches.fragments != ANYWHERE, FRAGMENTS),
            (matches.protocol != ANY, PROTOCOL),
            (matches.flags_mask != 0, FLAGS),
            (matches.count(DESTINATION_PORT) != 0, TO),
            (matches.count(SOURCE_PORT) != 0, FROM),
        ] {
            self.fields |= if used { field } else { 0 };
        }
        for (kind, bits) in (0_u32..).zip(&mut self.control) {
            if matches.control == kind || matches.control & kind != 0 {
                *bits |= bit;
            }
        }
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
        self.protocol.add(bit, matches.protocol == ANY, |value| {
            matches.protocol == value
        });
        self.flags.add(bit, matches.flags_mask == 0, |value| {
            value & matches.flags_mask == matches.flags
        });
        // The words above decide these fields.
        let mut decided = Match {
            control: matches.control,
            family: matches.family,
            protocol: matches.protocol,
            fragments: matches.fragments,
            flags_mask: matches.flags_mask,
            flags: matches.flags,
            lists: matches.lists,
            unless: matches.unless,
            established: matches.established,
            other: matches.other,
            ..Match::EVERYTHING
        };
        for field in [DESTINATION_PORT, SOURCE_PORT] {
            decided = decided.with(field, matches.ranges(field));
        }
        if *matches != decided || limit.except != Match::NOTHING {
            self.uncertain |= bit;
        }
    }
}

/// Number of the lowest set bit; 0 if no bit is set. BPF has no instruction for this: multiplication by a de Bruijn
/// sequence gives different upper six bits for each bit.
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
