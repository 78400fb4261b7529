//! Draws random settings, packets near the boundaries of the settings, and times.

pub mod frames;
pub mod merged;
pub mod moment;
pub mod packets;
pub mod settings;

use fastrand::Rng;

/// A random element.
pub fn one<'a, T>(rng: &mut Rng, choices: &'a [T]) -> &'a T {
    &choices[rng.usize(0..choices.len())]
}

/// True in `chance` of a hundred cases.
pub fn percent(rng: &mut Rng, chance: u32) -> bool {
    rng.u32(0..100) < chance
}

/// The seed from `LIMITER_SEED` (decimal, or hexadecimal after 0x), otherwise `default`.
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
