//! Keys of two addresses: pairs of source and destination, and flows.
//!
//! IPv4 fits into the 128 bits of a key. Of IPv6, a key has a hash.

use super::{
    Seed,
    key::{Address, IPV4, KeyMask, Words},
    nat64::Nat64,
};

/// Protocol and ports of a flow, above bit 1; 0 for a pair of addresses.
#[inline(always)]
pub const fn flow(protocol: u32, source_port: u32, destination_port: u32) -> u64 {
    (source_port as u64 & 0xffff) << 48
        | (destination_port as u64 & 0xffff) << 32
        | (protocol as u64 & 0xff) << 8
}

/// In the second word: the key has the addresses themselves, which are IPv4.
const PLAIN: u64 = 2;
/// In the second word: the key is a hash of IPv6 addresses.
const HASHED: u64 = 1;

/// The words of the key for packets between two addresses, which are masked by `mask`. `flow` is that of [`fn@flow`].
/// `nat64`: sources with these prefixes stand for IPv4 addresses.
#[inline(always)]
pub fn words(
    mask: &KeyMask,
    source: &Address,
    destination: &Address,
    flow: u64,
    seed: &Seed,
    nat64: &Nat64,
) -> Words {
    let (family, source) = mask.masked(source, nat64);
    let destination = mask.masked_destination(destination);
    if family == IPV4 {
        return [ipv4(source) << 32 | ipv4(destination), flow | PLAIN];
    }
    let [first, second] = hash(
        seed,
        [source[0], source[1], destination[0], destination[1], flow],
    );
    [first, second & !PLAIN | HASHED]
}

/// The addresses and the flow of a key's words, as far as the key has them: source, destination, [`fn@flow`]. None for a
/// hash.
pub const fn addresses([first, second]: Words) -> Option<(u32, u32, u64)> {
    if second & HASHED != 0 {
        return None;
    }
    Some((
        (first >> 32) as u32,
        (first & 0xffff_ffff) as u32,
        second & !PLAIN,
    ))
}

/// The four bytes of an IPv4 address as a number, in the order of memory.
#[inline(always)]
const fn ipv4(words: Words) -> u64 {
    if cfg!(target_endian = "big") {
        words[0] >> 32
    } else {
        words[0]
    }
}

/// SipHash-1-3 with a result of 128 bits (Aumasson and Bernstein, 2012; the kernel's `hsiphash` has the same rounds).
/// Without the seed, nobody can find two flows with one key.
#[inline(always)]
pub fn hash(seed: &Seed, words: [u64; 5]) -> Words {
    const BYTES: u64 = 40;
    let [first, second, ..] = seed.0;
    let mut state = [
        first ^ 0x736f_6d65_7073_6575,
        second ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        first ^ 0x6c79_6765_6e65_7261,
        second ^ 0x7465_6462_7974_6573,
    ];
    for word in words {
        absorb(&mut state, word);
    }
    absorb(&mut state, BYTES << 56);
    state[2] ^= 0xee;
    let low = squeeze(&mut state);
    state[1] ^= 0xdd;
    [low, squeeze(&mut state)]
}

#[inline(always)]
fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

#[inline(always)]
fn squeeze(state: &mut [u64; 4]) -> u64 {
    round(state);
    round(state);
    round(state);
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

#[inline(always)]
fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}
