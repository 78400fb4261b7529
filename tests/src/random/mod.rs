//! What random tests are made of: settings, packets that come close to what the settings say, and times.

pub mod frame;
pub mod moment;
pub mod packets;
pub mod settings;

use fastrand::Rng;

/// One of several.
pub fn one<'a, T>(rng: &mut Rng, of: &'a [T]) -> &'a T {
    &of[rng.usize(0..of.len())]
}

/// True so many times in a hundred.
pub fn percent(rng: &mut Rng, chance: u32) -> bool {
    rng.u32(0..100) < chance
}

/// The seed: what `LIMITER_SEED` says (decimal, or hexadecimal behind 0x), or else `default`.
#[must_use]
pub fn seed(default: u64) -> u64 {
    let Ok(text) = std::env::var("LIMITER_SEED") else {
        return default;
    };
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|error| panic!("LIMITER_SEED={text}: {error}"))
}
