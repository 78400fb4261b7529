//! The table of open connections: how many a key has. The kernel program counts changes of the state of sockets, and user
//! space corrects the counts by the sockets themselves.
//!
//! A line of eight words is one cache line. Its first word counts its changes; each other one has the tag of a key and
//! its count, so that one compare-and-swap changes both. A word without connections is 0, and free. Only connections
//! that are open have a word: requests to connect do not, so that a flood of them fills nothing.
//!
//! The first line has totals ([`FULL`], [`LOST`]), the next ones have a bit for each local port at which peers have
//! connected. Then follow the parts of the limits, one each: connections that count for one limit take no room of another.

use crate::{
    abi::{
        Constants,
        connections::{Bound, Bounds},
        rules::Limit,
    },
    policy::port_holds,
    table::{
        Seed,
        key::{Address, SourceKey},
        scaled,
        word::Word,
    },
};

/// Words of a line.
pub const WORDS: u32 = 8;
/// Number of the word in the first line that counts the keys that are at their bound.
pub const FULL: u32 = 0;
/// Number of the word in the first line that counts the connections that found no room in the table.
pub const LOST: u32 = 1;
/// The first line of the ports.
const PORTS: u32 = 1;
/// The first line of the first limit's part.
pub const FIRST_REGION: u32 = PORTS + (1 << 16) / (u64::BITS * WORDS);

/// Lines of the table with these bounds.
pub const fn table_lines(bounds: &Bounds) -> u32 {
    if bounds.limits == 0 {
        return 1;
    }
    FIRST_REGION + bounds.limits.count_ones() * bounds.lines
}

/// Bits of a count; the bits above it are the tag.
const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// Attempts to change a word that other CPUs change.
const TRIES: u32 = 8;

/// A line of the table.
pub trait Line: Copy {
    /// The type of its words.
    type Word: Word;
    /// The word with this number, below [`WORDS`].
    fn word(self, index: u32) -> Self::Word;
}

/// The place of a key: its line, and its tag there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Number of the line.
    pub line: u32,
    /// The tag, in the bits above the count.
    pub tag: u64,
}

impl Place {
    /// The place of a key under a limit with this bound. Two keys of one line have the same tag once in 2^40 pairs.
    #[inline(always)]
    pub const fn of(seed: &Seed, key: &SourceKey, bound: Bound, lines: u32) -> Self {
        let mixed = seed.mixed(key);
        Self {
            line: FIRST_REGION + bound.region * lines + scaled(mixed >> 32, lines),
            tag: mixed << COUNT_BITS,
        }
    }
}

/// Line, word and bit of a local port.
#[inline(always)]
pub const fn port_place(port: u16) -> (u32, u32, u64) {
    let word = port as u32 / u64::BITS;
    (PORTS + word / WORDS, word % WORDS, 1 << (port % 64))
}

/// The tag of a word.
#[inline(always)]
pub const fn tag(word: u64) -> u64 {
    word & !COUNT
}

/// The count of a word.
#[inline(always)]
pub const fn count(word: u64) -> u64 {
    word & COUNT
}

/// The open connections of the key with this tag.
#[inline(always)]
pub fn count_of(line: impl Line, wanted: u64) -> u64 {
    let (mut index, mut sum) = (1, 0);
    while index < WORDS {
        let word = line.word(index).load();
        if tag(word) == wanted {
            sum += count(word);
        }
        index += 1;
    }
    sum
}

/// A change of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The count before and after.
    From(u64, u64),
    /// There was no such key, or no room for it.
    Not,
}

/// Counts a connection that opens or closes.
#[inline(always)]
pub fn change(line: impl Line, wanted: u64, opens: bool) -> Changed {
    // First, so that user space never takes the line for unchanged.
    line.word(0).add(1);
    for _ in 0..TRIES {
        let (mut index, mut place, mut before) = (1, 0, 0);
        while index < WORDS {
            let word = line.word(index).load();
            if word != 0 && tag(word) == wanted {
                (place, before) = (index, word);
                break;
            }
            if word == 0 && place == 0 {
                place = index;
            }
            index += 1;
        }
        if place == 0 || before == 0 && !opens {
            return Changed::Not;
        }
        let open = count(before);
        let after = if opens { open + 1 } else { open - 1 };
        let new = if after == 0 { 0 } else { wanted | after };
        if after <= COUNT && line.word(place).swap(before, new) {
            return Changed::From(open, after);
        }
    }
    Changed::Not
}

/// The change of [`FULL`] by a change of a count under this bound.
#[inline(always)]
pub const fn change_of_full(before: u64, after: u64, most: u32) -> u64 {
    let most = most as u64;
    ((after >= most) as u64).wrapping_sub((before >= most) as u64)
}

/// Returns true if a limit counts the connections of this peer at this local port. Other fields of its match are about
/// packets.
#[inline(always)]
pub fn counts(limit: &Limit, peer: &Address, port: u16) -> bool {
    let wanted = &limit.matches;
    (wanted.family == 0 || wanted.family == peer.family) && port_holds(wanted, port as u32)
}

/// The place of a peer's connections at this port, and the bound of the limit with this index; none if the limit has no
/// bound, or does not count them.
#[inline(always)]
pub fn place_of(
    constants: &Constants,
    index: u32,
    peer: &Address,
    port: u16,
) -> Option<(Place, Bound)> {
    let bounds = &constants.bounds;
    let bound = *bounds.of_limits.get(index as usize)?;
    let limit = constants.limit(index)?;
    if bound.most == 0 || !counts(limit, peer, port) {
        return None;
    }
    let key = limit.mask.key(limit.slot, peer, port, &constants.nat64);
    let place = Place::of(&constants.seed, &key, bound, bounds.lines);
    Some((place, bound))
}

/// Returns true if a socket in this state (include/net/tcp_states.h) is an open connection: `ESTABLISHED` or `CLOSE_WAIT`.
/// So a connection is closed as soon as the host has closed its side.
#[inline(always)]
pub const fn is_open(state: u32) -> bool {
    state == 1 || state == 8
}

/// The state of a socket that a peer's handshake opens: `SYN_RECV`.
pub const HANDSHAKE: u32 = 3;
