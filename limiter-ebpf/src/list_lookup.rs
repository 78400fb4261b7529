//! Finds the lists that decide about a source by their index, and its ban.

use limiter_common::{
    abi::{
        Listed,
        rules::{CONTROL_BANNED, LISTS_MAX, ON_ALLOW, ON_BAN, ON_DENY},
    },
    index::Array,
    policy::Evaluation,
    table::key::{Address, IPV4},
};

use crate::{bans, constants, counters, lent, maps::LISTED, switches::are_there_bans};

/// Bits of the lists that decide about the packet's source, and of a ban that drops it. Counts the packet for each of
/// these.
#[inline(always)]
pub fn find(evaluation: &Evaluation) -> u32 {
    if constants().lists_ipv4 | constants().lists_ipv6 != 0 || are_there_bans() {
        list_find(&raw const *evaluation)
    } else {
        0
    }
}

/// Bits of the lists that an address is on.
#[inline(always)]
pub fn of_address(address: &Address) -> u32 {
    list_address(&raw const *address)
}

/// [`of_address`]. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn list_address(address: *const Address) -> u32 {
    lent!(address);
    look_up(address).lists
}

/// [`find`]: returns bits of lists, or 0. A global function, so that the verifier does not follow each combination of
/// bits.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn list_find(evaluation: *const Evaluation) -> u32 {
    lent!(evaluation);
    let peer = evaluation.info.peer(constants().egress);
    let Listed {
        mut lists, allowed, ..
    } = look_up(peer);
    if constants().control != 0 && evaluation.info.control & CONTROL_BANNED != 0 {
        lists = 0;
    }
    let banned = match are_there_bans() {
        true => bans::find(peer, evaluation.length, allowed),
        false => 0,
    };
    if banned & ON_BAN != 0 {
        lists &= !(ON_ALLOW | ON_DENY);
    } else {
        lists |= banned;
    }
    for list in 0..LISTS_MAX {
        // Most listed sources are on one of the first two lists.
        if lists >> list == 0 {
            break;
        }
        if lists >> list & 1 != 0 {
            counters::count_hit(list, evaluation.length);
        }
    }
    lists | banned
}

/// The lists of an address.
#[inline(always)]
fn look_up(source: &Address) -> Listed {
    let (constants, words) = (constants(), &source.words);
    Listed::of_record(match source.family {
        IPV4 if constants.lists_ipv4 != 0 => constants.index.ipv4(&Map, words),
        IPV4 => 0,
        _ if constants.lists_ipv6 != 0 => constants.index.ipv6(&Map, words),
        _ => 0,
    })
}

/// The map of the lists.
struct Map;

impl Array for Map {
    #[inline(always)]
    fn word(&self, number: u32) -> Option<u64> {
        LISTED.get(number).copied()
    }
}
