//! The token bucket in one word, as pure functions of (state, now, cost).
//!
//! A bucket is its *theoretical arrival time* (TAT): the moment at which it will be full again.
//! The unit of every time here is the *tick*: 1/256 ns, so that a `u64` wraps after 2.28 years.
//! Arithmetic wraps, and two moments compare by the sign of their difference.
//!
//! Nothing here divides by a value from a packet, multiplies what could overflow, or needs more
//! than 64 bits: it runs in the kernel as it stands.

/// Bits of a tick below the nanosecond.
pub const TICK_SHIFT: u32 = 8;

/// Ticks in one second.
pub const TICKS_PER_SECOND: u64 = 1_000_000_000 << TICK_SHIFT;

/// The largest depth of a bucket (`tau`), in ticks: 208 days. Two such values add up to at most
/// half of the clock's range, which is what comparing by sign needs.
pub const TAU_MAX: u64 = 1 << 62;

/// Not a time: the entry has never had a source.
pub const FREE: u64 = 0;

/// Not a time: a CPU is handing the entry over, or converts it to new quota, and is done in a moment.
pub const BUSY: u64 = 1;

/// Not a time: the entry has no source any more. The operator has removed it.
pub const FORGOTTEN: u64 = 2;

/// Not a time: the entry is the second half of the one before it, for a key that takes two.
pub const REST: u64 = 3;

/// The clock of the kernel (`CLOCK_MONOTONIC`, nanoseconds) in ticks; wraps.
#[must_use]
#[inline(always)]
pub const fn ticks(nanoseconds: u64) -> u64 {
    nanoseconds << TICK_SHIFT
}

/// Whether `word` is a time, and not one of the marks above.
#[must_use]
#[inline(always)]
pub const fn is_time(word: u64) -> bool {
    word > REST
}

/// The greatest difference between the clocks of two CPUs, in ticks: 1 ms, a thousand times the observed one. A TAT
/// that is further ahead than an empty bucket's by more than this comes from a clock that was set back, not from
/// another CPU.
pub const SKEW_MAX: u64 = 1 << (20 + TICK_SHIFT);

/// Ticks from `now` to `tat`; 0 if `tat` has passed.
#[inline(always)]
pub(crate) const fn ahead(tat: u64, now: u64) -> u64 {
    let ahead = tat.wrapping_sub(now);
    if ahead.cast_signed() <= 0 { 0 } else { ahead }
}

/// The deepest debt of a bucket that other hosts charge too, in ticks (73 minutes). Packets that these hosts admitted
/// before they heard of one another must be waited for.
pub const DEBT_MAX: u64 = 1 << 50;

/// The spent part of a bucket at `now`, in ticks, between 0 (full) and `tau` (empty).
#[must_use]
#[inline(always)]
pub const fn spent(tat: u64, now: u64, tau: u64) -> u64 {
    let ahead = ahead(tat, now);
    if ahead > tau { tau } else { ahead }
}

/// The word to put in the place of one that is further ahead than any packet could have brought it:
/// after a clock that was set back, or after more than a year of silence. The bucket counts as empty
/// from `now` on, so that no source is locked out for longer than a burst takes to refill.
///
/// A word that is at most `beyond` ahead of an empty bucket's stays. `beyond` is [`SKEW_MAX`] for another CPU's clock,
/// because a correction would hand out the difference between the two clocks again and again. It is [`DEBT_MAX`] for
/// charges of other hosts, because they have admitted those packets.
#[must_use]
#[inline(always)]
pub const fn corrected(tat: u64, now: u64, tau: u64, beyond: u64) -> Option<u64> {
    if ahead(tat, now) > tau + beyond {
        Some(time(now.wrapping_add(tau)))
    } else {
        None
    }
}

/// Ticks since the bucket became full, at `now`; none if it is not full. To forget a full bucket loses nothing.
#[must_use]
#[inline(always)]
pub const fn full_for(tat: u64, now: u64) -> Option<u64> {
    let since = now.wrapping_sub(tat);
    if since.cast_signed() < 0 {
        None
    } else {
        Some(since)
    }
}

/// The answer of a bucket to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// There are tokens enough; the bucket's word becomes `tat` if the packet is charged.
    Admit {
        /// The new word.
        tat: u64,
    },
    /// There are not tokens enough; the bucket stays unchanged.
    Refuse {
        /// Ticks until the same packet would be admitted, if nothing else is charged meanwhile.
        wait: u64,
    },
}

/// Decides about a packet that costs `cost` ticks at `now`, in a bucket that is `tau` ticks deep. The caller checks
/// after a refusal whether the word must be [`corrected`].
///
/// `cost` and `tau` are at most [`TAU_MAX`], which keeps the sum below 2^64.
#[must_use]
#[inline(always)]
pub const fn decide(tat: u64, now: u64, cost: u64, tau: u64) -> Decision {
    let after = ahead(tat, now) + cost;
    if after > tau {
        return Decision::Refuse { wait: after - tau };
    }
    Decision::Admit {
        tat: time(now.wrapping_add(after)),
    }
}

/// The word for the moment `tick`: the marks are stepped over, at most four ticks later, so that a
/// bucket never gains by it.
#[must_use]
#[inline(always)]
pub const fn time(tick: u64) -> u64 {
    if is_time(tick) { tick } else { REST + 1 }
}

/// The word without a charge of `cost` ticks that was made at `charged`. The refill since then, up to
/// `now`, stays charged: without the charge the bucket may have been full for as long, and refilled
/// nothing. So a bucket never gains by it.
#[must_use]
#[inline(always)]
pub const fn refunded(tat: u64, cost: u64, charged: u64, now: u64) -> u64 {
    let elapsed = ahead(now, charged);
    if elapsed >= cost {
        return tat;
    }
    time(tat.wrapping_sub(cost - elapsed))
}
