//! Finds the ban of a packet's peer: its address, or the longest banned prefix around it.

use limiter_common::{
    abi::{PrefixBans, rules::ON_BAN},
    arithmetic::size,
    policy::ban::{self, NESTED, increment},
    table::{
        key::{Address, IPV4},
        word::Word as _,
    },
};

use crate::{
    atomic::Word,
    clock, constants, counters,
    maps::{BANNED_PREFIXES, BANS},
    prefix_key::PrefixKey,
    read, switches,
};

/// [`ON_BAN`] if a ban drops a packet of this peer, for which it counts the packet; otherwise the bit of the list of
/// throttled sources, if a ban puts the peer there. `allowed`: see [`limiter_common::abi::Listed::allowed`].
#[inline(always)]
pub fn find(peer: &Address, length: u64, allowed: u32) -> u32 {
    ban_find(&raw const *peer, length, allowed)
}

/// [`find`]. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn ban_find(peer: *const Address, length: u64, allowed: u32) -> u32 {
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    let (Some(peer), Some(switches)) = (unsafe { peer.as_ref() }, switches::record()) else {
        return 0;
    };
    let now = clock::recent();
    let mut throttled = 0;
    // Read once: one packet sees all bans of a change, or none.
    let change = read!(switches, bans.change);
    let mut key = if peer.family == IPV4 {
        PrefixKey::mapped(peer)
    } else {
        PrefixKey::<4>::new(peer)
    };
    if read!(switches, bans.counts[0]) != 0 {
        // SAFETY: user space replaces whole values, and the program only adds to `dropped`.
        if let Some(found) = unsafe { BANS.get(key.key()) } {
            if ban::drops(found, change, allowed, now) {
                return count(found, length);
            }
            throttled |= throttled_by(found, change, allowed, now);
        }
    }
    if read!(switches, bans.counts[1]) != 0 {
        for _ in 0..NESTED {
            let Some(found) = BANNED_PREFIXES.get(key.key()) else {
                break;
            };
            if ban::drops(found, change, allowed, now) {
                return count(found, length);
            }
            throttled |= throttled_by(found, change, allowed, now);
            // A ban of a shorter prefix may last longer, or drop. Behind an allowed prefix, it does not matter.
            if found.bits == 0 || found.bits < allowed {
                break;
            }
            key.shorten(found.bits - 1);
        }
    }
    throttled
}

/// The bit of the list of throttled sources if these bans put theirs there; 0 if not. Without such a list, it costs nothing.
#[inline(always)]
fn throttled_by(found: &PrefixBans, change: u64, allowed: u32, now: u64) -> u32 {
    match constants().throttled {
        0 => 0,
        list if ban::throttles(found, change, allowed, now) => list,
        _ => 0,
    }
}

/// Counts a packet for the ban that drops it. Returns [`ON_BAN`].
#[inline(always)]
fn count(found: &PrefixBans, length: u64) -> u32 {
    let before = counters::count_hit(ON_BAN.trailing_zeros(), length);
    if constants().shadow == 0 {
        // SAFETY: an aligned field of a map value. All accesses are single instructions.
        let dropped = unsafe { Word::at((&raw const found.dropped).cast_mut()) };
        let increment = increment(dropped.load(), before, size::packets(length));
        if increment != 0 {
            dropped.add(increment);
        }
    }
    ON_BAN
}
