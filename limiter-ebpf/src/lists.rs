//! Finds the lists that decide about a source: one lookup of the longest prefix.

use aya_ebpf::btf_maps::lpm_trie::Key;
use limiter_common::{
    abi::{
        Listed,
        rules::{LISTS_MAX, ON_DENY},
    },
    policy::{Evaluation, denied},
    table::{
        key::{Address, IPV4},
        word::Word as _,
    },
};

use crate::{
    atomic::Word,
    constants, counters,
    maps::{LISTED_IPV4, LISTED_IPV6},
};

/// Bits of the lists that decide about the packet's source. Counts the packet for each of these lists.
#[inline(always)]
pub fn find(evaluation: &Evaluation) -> u32 {
    if constants().lists_ipv4 | constants().lists_ipv6 != 0 {
        list_find(&raw const *evaluation)
    } else {
        0
    }
}

/// Bits of the lists that the packet's destination is on.
#[inline(always)]
pub fn of_destination(evaluation: &Evaluation) -> u32 {
    list_destination(&raw const *evaluation)
}

/// [`of_destination`]. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn list_destination(evaluation: *const Evaluation) -> u32 {
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    let evaluation = unsafe { evaluation.as_ref() };
    let listed = evaluation.and_then(|evaluation| of(&evaluation.info.destination));
    listed.map_or(0, |listed| listed.lists)
}

/// [`find`]: returns bits of lists, or 0. A global function, so that the verifier does not follow each combination of
/// bits.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn list_find(evaluation: *const Evaluation) -> u32 {
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    let Some(evaluation) = (unsafe { evaluation.as_ref() }) else {
        return 0;
    };
    let Some(listed) = of(evaluation.info.peer(constants().egress)) else {
        return 0;
    };
    let lists = listed.lists;
    for list in 0..LISTS_MAX {
        // Most listed sources are on one of the first two lists.
        if lists >> list == 0 {
            break;
        }
        if lists >> list & 1 != 0 {
            let hits = counters::count_hit(list, evaluation.length);
            if 1 << list == ON_DENY && constants().shadow == 0 {
                count_drop(listed, hits);
            }
        }
    }
    lists
}

/// Counts a packet that the deny list drops for its prefix. `denied`: packets that this CPU has denied.
#[inline(always)]
fn count_drop(listed: &Listed, denied: u64) {
    // SAFETY: an aligned field of a map value. All accesses are single instructions.
    let dropped = unsafe { Word::at((&raw const listed.dropped).cast_mut()) };
    let increment = denied::increment(dropped.load(), denied);
    if increment != 0 {
        dropped.add(increment);
    }
}

#[inline(always)]
fn of(source: &Address) -> Option<&'static Listed> {
    if source.family == IPV4 {
        if constants().lists_ipv4 == 0 {
            return None;
        }
        LISTED_IPV4.get(Whole::<2>::new(source).key())
    } else {
        if constants().lists_ipv6 == 0 {
            return None;
        }
        LISTED_IPV6.get(Whole::<4>::new(source).key())
    }
}

/// A whole address as the key of a lookup.
#[repr(C)]
struct Whole<const WORDS: usize> {
    bits: u32,
    address: [u32; WORDS],
}

impl<const WORDS: usize> Whole<WORDS> {
    /// Copies word by word: LLVM would copy eight bytes at a time, and the verifier requires these to be aligned on the
    /// stack.
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
