//! IPv6 addresses that stand for IPv4 addresses: a translator (NAT64, SIIT-DC) puts the IPv4 address of a client behind one
//! of its prefixes (RFC 6052).

use super::key::Words;
use crate::pod::{Pod as _, pod};

/// The most prefixes: the well-known one, and three that the operator names.
pub const PREFIXES_MAX: usize = 4;

/// A prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Prefix {
    /// Its first address.
    pub first: Words,
    /// The bits that are compared. Zeros: no prefix.
    pub mask: Words,
}

pod!(Prefix: first mask);

/// The prefixes of translators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Nat64 {
    /// The prefixes; the well-known one is the first.
    pub prefixes: [Prefix; PREFIXES_MAX],
    /// Number of prefixes.
    pub length: u32,
    /// 0, for the alignment.
    pub reserved: u32,
}

pod!(Nat64: prefixes length reserved);

impl Nat64 {
    /// The well-known prefix alone: 64:ff9b::/96.
    pub const WELL_KNOWN: Self = {
        let mut prefixes = [Prefix::ZEROS; PREFIXES_MAX];
        prefixes[0] = Prefix {
            first: [
                u64::from_ne_bytes([0, 0x64, 0xff, 0x9b, 0, 0, 0, 0]),
                u64::from_ne_bytes([0; 8]),
            ],
            mask: [
                u64::MAX,
                u64::from_ne_bytes([255, 255, 255, 255, 0, 0, 0, 0]),
            ],
        };
        Self {
            prefixes,
            length: 1,
            reserved: 0,
        }
    };

    /// Index of the prefix that has the address.
    #[inline(always)]
    pub const fn find(&self, address: &Words) -> Option<usize> {
        let mut index = 0;
        while index < PREFIXES_MAX {
            if index >= self.length as usize {
                break;
            }
            let Prefix { first, mask } = &self.prefixes[index];
            if address[0] & mask[0] == first[0] && address[1] & mask[1] == first[1] {
                return Some(index);
            }
            index += 1;
        }
        None
    }
}

/// Number of bits that a prefix of `prefix` bits has together with `ipv4` bits of the IPv4 address behind it. Bits 64 to 71
/// are no part of the IPv4 address (RFC 6052, section 2.2).
pub const fn bits(prefix: u32, ipv4: u32) -> u32 {
    let end = prefix + ipv4;
    if prefix <= 64 && end > 64 {
        end + 8
    } else {
        end
    }
}
