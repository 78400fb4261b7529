//! The host's addresses and routes, by which the program decides whether the host's own stack would answer a packet. With
//! forwarding off, the kernel answers no question of a program about them, so user space reads them at each command.

use crate::{
    pod::{Pod as _, pod},
    table::key::{Address, IPV4, IPV6, Words},
};

/// The most entries.
pub const ROUTES_MAX: u32 = 128;

/// Value of [`Route::kind`]: an address of the host.
pub const OF_HOST: u32 = 1;
/// Value of [`Route::kind`]: the host's stack accepts nothing from or to these addresses.
pub const NO_ONE: u32 = 2;
/// Value of [`Route::kind`]: packets from these addresses get an answer.
pub const ANSWERED: u32 = 3;
/// Value of [`Route::kind`]: packets from these addresses get none, because there is no way back, or `rp_filter` wants
/// another one.
pub const NO_WAY_BACK: u32 = 4;

/// A prefix, and what the host's stack does about its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Route {
    /// The bits of the prefix.
    pub words: Words,
    /// Ones for these bits.
    pub mask: Words,
    /// [`IPV4`] or [`IPV6`]; 0: no entry.
    pub family: u32,
    /// [`OF_HOST`], [`NO_ONE`], [`ANSWERED`] or [`NO_WAY_BACK`].
    pub kind: u32,
}

pod!(Route: words mask family kind);

impl Route {
    /// No entry.
    pub const NONE: Self = Self::ZEROS;

    /// The prefix with these bytes, of which an IPv4 address has the first four, and this length.
    pub fn new(bytes: [u8; 16], family: u32, length: u32, kind: u32) -> Self {
        let ones = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        let mask = words(ones.to_be_bytes());
        let [first, second] = words(bytes);
        Self {
            words: [first & mask[0], second & mask[1]],
            mask,
            family,
            kind,
        }
    }

    /// Bits of the prefix.
    pub const fn length(&self) -> u32 {
        self.mask[0].count_ones() + self.mask[1].count_ones()
    }

    /// True if an address is in the prefix.
    #[inline(always)]
    pub const fn has(&self, words: &Words, family: u32) -> bool {
        let ([first, second], [a, b]) = (self.words, self.mask);
        // One comparison, so that the verifier follows one branch.
        (first ^ words[0]) & a | (second ^ words[1]) & b | (self.family ^ family) as u64 == 0
    }
}

fn words(bytes: [u8; 16]) -> Words {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    [[a, b, c, d, e, f, g, h], rest].map(u64::from_ne_bytes)
}

/// The kind of an address: that of the first prefix that has it; 0: none has.
#[inline(always)]
pub fn kind_of(routes: &[Route; ROUTES_MAX as usize], words: &Words, family: u32) -> u32 {
    for route in routes {
        if route.has(words, family) {
            return route.kind;
        }
    }
    0
}

/// True if the address is one that a host has on each link.
#[inline(always)]
pub const fn is_link_local(address: &Address) -> bool {
    address.family == IPV6 && address.words[0].to_be() >> 54 == 0xfe80 >> 6
}

const _: () = assert!(IPV4 != 0 && IPV6 != 0, "0 is no family");
