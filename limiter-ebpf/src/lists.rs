//! Which lists decide about a source: one lookup of the longest prefix.

use aya_ebpf::btf_maps::lpm_trie::Key;
use limiter_common::{
    key::{Address, IPV4},
    rules::LISTS_MAX,
};

use crate::facts::Facts;
use crate::maps::{LISTED_IPV4, LISTED_IPV6};
use crate::{config, counters};

/// Bits of the lists that decide about the packet's source. It is counted for each.
#[inline(always)]
pub fn look_up(facts: &Facts) -> u32 {
    if config::lists_ipv4() || config::lists_ipv6() {
        list_look_up(&raw const *facts)
    } else {
        0
    }
}

/// A function of its own, so that the verifier does not follow the bits into every combination, and
/// with a stack of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn list_look_up(facts: *const Facts) -> u32 {
    // SAFETY: the caller's own, which the verifier has checked; it wants to see null checked.
    let Some(facts) = (unsafe { facts.as_ref() }) else {
        return 0;
    };
    let lists = of(&facts.info.source);
    if lists == 0 {
        return 0;
    }
    for list in 0..LISTS_MAX {
        if lists >> list & 1 != 0 {
            counters::count_hit(list, facts.length);
        }
    }
    lists
}

#[inline(always)]
fn of(source: &Address) -> u32 {
    if source.family == IPV4 {
        if !config::lists_ipv4() {
            return 0;
        }
        let key = Whole::<1>::new(source);
        LISTED_IPV4.get(key.key()).map_or(0, |listed| listed.lists)
    } else {
        if !config::lists_ipv6() {
            return 0;
        }
        let key = Whole::<4>::new(source);
        LISTED_IPV6.get(key.key()).map_or(0, |listed| listed.lists)
    }
}

/// A whole address, as the key of a lookup.
#[repr(C)]
struct Whole<const WORDS: usize> {
    bits: u32,
    address: [u32; WORDS],
}

impl<const WORDS: usize> Whole<WORDS> {
    /// Word by word: LLVM would copy eight bytes at a time, which are not aligned here, and the verifier
    /// wants them so on the stack.
    #[inline(always)]
    fn new(source: &Address) -> Self {
        let mut key = Self {
            bits: 0,
            address: [0; WORDS],
        };
        // SAFETY: fields of a local value, and as many words as either address has.
        unsafe {
            (&raw mut key.bits).write_volatile(WORDS as u32 * u32::BITS);
            let (from, to) = (
                (&raw const source.words).cast::<u32>(),
                (&raw mut key.address).cast::<u32>(),
            );
            for index in 0..WORDS {
                to.add(index).write_volatile(from.add(index).read());
            }
        }
        key
    }

    #[inline(always)]
    fn key(&self) -> &Key<[u32; WORDS]> {
        // SAFETY: the same fields, and `Key` is packed: no alignment is asked for.
        unsafe { &*(&raw const *self).cast() }
    }
}
