//! Proof `a2s`: a query of Valve's server queries gets a challenge, and a query that returns it proves its address.
//! The challenge is a hash of source and time, so that nothing is stored.

use super::datagram::{Datagram, Head};
use crate::table::{Seed, key::Address, pair};

/// Bytes of a challenge with its header: [`CHALLENGE`].
pub const LENGTH: u32 = 9;

/// The first bytes of a packet that is not split.
const SINGLE: u32 = 0xffff_ffff;
const INFORMATION: u32 = b'T' as u32;
const PLAYERS: u32 = b'U' as u32;
const RULES: u32 = b'V' as u32;
/// `S2C_CHALLENGE`.
const CHALLENGE: u32 = b'A' as u32;
/// The text of a query for information, with its end.
const TEXT: [u8; 20] = *b"Source Engine Query\0";

/// A challenge is valid for its period of this many nanoseconds, as a power of two (8.6 s), and for the next one.
const PERIOD: u32 = 33;

/// The challenge that a query returns; 0 if it returns none. None if the message is no query that is long enough for an
/// answer. Some clients put the challenge in front of the `ffffffff` of their first query.
#[inline(always)]
pub const fn returned(message: &Datagram, length: u32) -> Option<u32> {
    if message.word(0) != SINGLE {
        return None;
    }
    match (message.byte(4), length) {
        (PLAYERS | RULES, 9 | 13) => Some(message.word(5)),
        (INFORMATION, 25) if has_text(message) => Some(0),
        (INFORMATION, 29 | 33) if has_text(message) => Some(message.word(25)),
        _ => None,
    }
}

#[inline(always)]
const fn has_text(message: &Datagram) -> bool {
    let mut index = 0;
    while index < TEXT.len() {
        if message.bytes[5 + index] != TEXT[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// The challenge for a source at this time, in nanoseconds; never one that asks for a challenge.
#[inline(always)]
pub fn challenge(seed: &Seed, source: &Address, now: u64) -> u32 {
    /// Keys of flows never end so.
    const USE: u64 = u64::MAX;
    let [first, second] = source.words;
    let [hash, _] = pair::hash(
        seed,
        [first, second, now >> PERIOD, source.family as u64, USE],
    );
    match (hash >> 32) as u32 {
        0 | SINGLE => 1,
        challenge => challenge,
    }
}

/// True if the returned challenge was given a short time ago. `given` returns the [`challenge`] of a time.
#[inline(always)]
pub fn is_valid(now: u64, returned: u32, given: impl Fn(u64) -> u32) -> bool {
    let before = now.saturating_sub(1 << PERIOD);
    returned == given(now) || returned == given(before)
}

/// The answer with this challenge, of [`LENGTH`] bytes.
#[inline(always)]
pub const fn head(challenge: u32) -> Head {
    [
        SINGLE,
        (CHALLENGE << 24 | challenge >> 8).to_be(),
        (challenge << 24).to_be(),
    ]
}
