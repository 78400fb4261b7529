//! The scale of an adaptive limit: a word that another process writes while packets arrive.
//!
//! A smaller rate is a greater cost of each packet. The depth of the bucket in ticks stays, so that full and empty buckets
//! stay full and empty, and a burst has fewer tokens in the same proportion as the rate.
//!
//! A word is a *stretch* in its low 24 bits, in 2^-16, and the time at which it ends above these, in units of 2^20 ns. After
//! that time, and for the word 0, the stretch is [`ONE`]: a process that has died leaves no limit lowered.

/// The stretch of the configured rate.
pub const ONE: u32 = 1 << 16;

/// The greatest stretch: a hundredth of the configured rate.
pub const STRETCH_MAX: u32 = 100 * ONE;

/// The exclusive bound of a cost, in ticks (104 days), that can be stretched.
pub const COST_MAX: u64 = 1 << 51;

const STRETCH_BITS: u32 = 24;
/// Nanoseconds to the unit of the word's time.
const TIME_SHIFT: u32 = 20;

/// The word for a stretch of at most [`STRETCH_MAX`] that ends at `until` nanoseconds (below 2^60), rounded up.
pub const fn word(stretch: u32, until: u64) -> u64 {
    ((until >> TIME_SHIFT) + 1) << STRETCH_BITS | stretch as u64
}

/// True if the word has not ended at `now` nanoseconds: a process keeps it up.
#[inline(always)]
pub const fn is_kept(word: u64, now: u64) -> bool {
    now >> TIME_SHIFT < word >> STRETCH_BITS
}

/// The stretch of a word at `now` nanoseconds, between [`ONE`] and [`STRETCH_MAX`].
#[inline(always)]
pub fn stretch(word: u64, now: impl FnOnce() -> u64) -> u32 {
    let stretch = (word & ((1 << STRETCH_BITS) - 1)) as u32;
    if stretch <= ONE || stretch > STRETCH_MAX || !is_kept(word, now()) {
        return ONE;
    }
    stretch
}

/// A stretched cost, rounded up.
#[inline(always)]
pub const fn cost(cost: u64, stretch: u32) -> u64 {
    if stretch == ONE {
        return cost;
    }
    // The product would overflow. The packet costs more than a bucket has.
    if cost >= COST_MAX {
        return super::bucket::TAU_MAX;
    }
    let (high, low) = (cost >> 16, cost & 0xffff);
    let stretch = stretch as u64;
    high * stretch + ((low * stretch + 0xffff) >> 16)
}
