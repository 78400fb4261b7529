//! The fixed window in one word, as pure functions of (state, now, cost).
//!
//! Time is divided into windows of one length. Each window brings the same number of tokens; unused tokens carry over,
//! up to the burst. The word holds the number of the window in which it was written and the tokens left, so that one
//! compare-and-swap both refills and charges.

use crate::{
    arithmetic::bucket::{Decision, TICK_SHIFT},
    pod::pod,
};

/// The most tokens that a word can hold.
pub const TOKENS_MAX: u64 = u32::MAX as u64;

/// Set in every word, so that it differs from the marks of [`crate::arithmetic::bucket`].
const WRITTEN: u64 = 1 << 63;
/// Bits of a window's number: with windows of a second, it wraps after 68 years.
const INDEX_BITS: u32 = 31;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

/// The length of the windows, and the tokens of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Window {
    /// Length in nanoseconds; 0 if a limit has no windows.
    pub period: u64,
    /// Added to the clock, in nanoseconds, so that limits do not all refill at once.
    pub phase: u64,
    /// Tokens that a window brings; at most [`TOKENS_MAX`].
    pub grant: u64,
}

pod!(Window: period phase grant);

/// `numerator / denominator`, or 0 if the denominator is 0: the verifier refuses a division that could panic.
#[inline(always)]
const fn quotient(numerator: u64, denominator: u64) -> u64 {
    match numerator.checked_div(denominator) {
        Some(quotient) => quotient,
        None => 0,
    }
}

/// The number of windows from `earlier` to `later`; negative if `later` comes first.
#[inline(always)]
const fn after(later: u64, earlier: u64) -> i64 {
    const UNUSED: u32 = u64::BITS - INDEX_BITS;
    (later.wrapping_sub(earlier) << UNUSED).cast_signed() >> UNUSED
}

#[inline(always)]
const fn index_of(word: u64) -> u64 {
    (word >> 32) & INDEX_MASK
}

#[inline(always)]
const fn written(index: u64, left: u64) -> u64 {
    WRITTEN | ((index & INDEX_MASK) << 32) | left
}

impl Window {
    /// Number of the window at `now` (nanoseconds).
    #[inline(always)]
    const fn index(&self, now: u64) -> u64 {
        quotient(now.wrapping_add(self.phase), self.period) & INDEX_MASK
    }

    /// Nanoseconds since the window of `now` began.
    #[inline(always)]
    const fn since_start(&self, now: u64) -> u64 {
        let time = now.wrapping_add(self.phase);
        time.wrapping_sub(quotient(time, self.period).wrapping_mul(self.period))
    }

    /// The word for a bucket with `left` tokens at `now`.
    #[inline(always)]
    pub const fn word(&self, now: u64, left: u64) -> u64 {
        written(self.index(now), left)
    }

    /// Tokens left at `now`, at most `burst`. A clock that reads earlier refills nothing.
    #[inline(always)]
    pub const fn left(&self, word: u64, now: u64, burst: u64) -> u64 {
        let windows = after(self.index(now), index_of(word));
        let left = word & TOKENS_MAX;
        let left = if windows > 0 {
            left + self.grant * windows.cast_unsigned()
        } else {
            left
        };
        if left > burst { burst } else { left }
    }

    /// Nanoseconds since the bucket became full (`burst` tokens), at `now`. None if it is not full.
    #[inline(always)]
    pub(crate) const fn full_for(&self, word: u64, now: u64, burst: u64) -> Option<u64> {
        let passed = after(self.index(now), index_of(word));
        let left = word & TOKENS_MAX;
        // Windows after the word's window until the bucket is full.
        let needed = if left >= burst {
            0
        } else {
            quotient(burst - left + self.grant.wrapping_sub(1), self.grant)
        };
        if passed < 0 || passed.cast_unsigned() < needed {
            return if left >= burst { Some(0) } else { None };
        }
        let windows = passed.cast_unsigned() - needed;
        Some(
            windows
                .wrapping_mul(self.period)
                .wrapping_add(self.since_start(now)),
        )
    }

    /// Decides about a packet that costs `cost` tokens.
    #[inline(always)]
    pub const fn decide(&self, word: u64, now: u64, cost: u64, burst: u64) -> Decision {
        let left = self.left(word, now, burst);
        if cost > left {
            return Decision::Refuse {
                wait: self.wait(word, now, cost - left),
            };
        }
        let (present, of_word) = (self.index(now), index_of(word));
        let index = if after(present, of_word) > 0 {
            present
        } else {
            of_word
        };
        Decision::Admit {
            tat: written(index, left - cost),
        }
    }

    /// Ticks until the bucket has `missing` more tokens.
    #[inline(always)]
    const fn wait(&self, word: u64, now: u64, missing: u64) -> u64 {
        let ahead = after(index_of(word), self.index(now));
        let ahead = if ahead > 0 { ahead.cast_unsigned() } else { 0 };
        let windows = quotient(missing + self.grant.wrapping_sub(1), self.grant) + ahead;
        let nanoseconds = windows
            .wrapping_mul(self.period)
            .wrapping_sub(self.since_start(now));
        nanoseconds << TICK_SHIFT
    }

    /// The corrected word, if its window is further ahead than the clocks of two CPUs may differ: after the clock was
    /// set back. The tokens stay.
    #[inline(always)]
    pub const fn corrected(&self, word: u64, now: u64) -> Option<u64> {
        if after(index_of(word), self.index(now)) > 1 {
            Some(self.word(now, word & TOKENS_MAX))
        } else {
            None
        }
    }

    /// The moment that the word describes, at `since` or later: nanoseconds after `since`, and the tokens left.
    #[inline(always)]
    pub(crate) const fn standing(&self, word: u64, since: u64, burst: u64) -> (u64, u64) {
        let late = after(index_of(word), self.index(since));
        if late <= 0 {
            return (0, self.left(word, since, burst));
        }
        let start = late.cast_unsigned().wrapping_mul(self.period);
        let left = word & TOKENS_MAX;
        (
            start.wrapping_sub(self.since_start(since)),
            if left > burst { burst } else { left },
        )
    }

    /// The word without a charge of `cost` tokens at `charged`. If the word is of another window, the charge stays: the
    /// carried tokens may have been cut to `burst` meanwhile.
    #[inline(always)]
    pub(crate) const fn refunded(&self, word: u64, cost: u64, charged: u64, burst: u64) -> u64 {
        let of_word = index_of(word);
        if of_word != self.index(charged) {
            return word;
        }
        let left = (word & TOKENS_MAX) + cost;
        written(of_word, if left > burst { burst } else { left })
    }
}
