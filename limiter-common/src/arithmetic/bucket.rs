//! The token bucket in one word, as pure functions of (state, now, cost).
//!
//! A bucket is its *theoretical arrival time* (TAT): the moment at which it will be full again. Times are in *ticks* of
//! 1/256 ns, so that a `u64` wraps after 2.28 years. Arithmetic wraps, and two moments compare by the sign of their
//! difference.
//!
//! The code also runs in the kernel: no division by a value from a packet, no multiplication that could overflow, and
//! 64 bits at most.

/// Bits of a tick below the nanosecond.
pub const TICK_SHIFT: u32 = 8;

/// Ticks in one second.
pub const TICKS_PER_SECOND: u64 = 1_000_000_000 << TICK_SHIFT;

/// The largest depth of a bucket (`tau`), in ticks: 208 days. Two such values add up to half of the clock's range, the
/// most that a comparison by sign allows.
pub const TAU_MAX: u64 = 1 << 62;

/// Mark: the entry is free.
pub const FREE: u64 = 0;

/// Mark: a CPU is giving the entry to another source, or converting it to another quota.
pub const BUSY: u64 = 1;

/// Mark: the operator has reset the source of the entry.
pub const FORGOTTEN: u64 = 2;

/// Mark: the entry is the second half of the one before it.
pub const REST: u64 = 3;

/// Converts nanoseconds of the kernel's clock (`CLOCK_MONOTONIC`) to ticks; wraps.
#[inline(always)]
pub const fn ticks(nanoseconds: u64) -> u64 {
    nanoseconds << TICK_SHIFT
}

/// True if `word` is a time and not a mark.
#[inline(always)]
pub const fn is_time(word: u64) -> bool {
    word > REST
}

/// The greatest difference between the clocks of two CPUs, in ticks: 1 ms, a thousand times the observed difference. A
/// TAT that is further ahead of an empty bucket's comes from a clock that was set back, not from another CPU.
pub const SKEW_MAX: u64 = 1 << (20 + TICK_SHIFT);

/// The most by which a clock may be set back, in ticks: 19 hours. A TAT that is further ahead is not from the future: its
/// source was idle for more than 1.14 years, half of the range of the ticks.
pub const BACK_MAX: u64 = 1 << 54;

/// Ticks from `now` to `tat`; 0 if `tat` has passed.
#[inline(always)]
pub(crate) const fn ahead(tat: u64, now: u64) -> u64 {
    let ahead = tat.wrapping_sub(now);
    if ahead.cast_signed() <= 0 { 0 } else { ahead }
}

/// The deepest debt of a bucket that other hosts charge too, in ticks (73 minutes): packets that the hosts admitted
/// before they heard of each other's.
pub const DEBT_MAX: u64 = 1 << 50;

/// The spent part of a bucket at `now`, in ticks, between 0 (full) and `tau` (empty).
#[inline(always)]
pub const fn spent(tat: u64, now: u64, tau: u64) -> u64 {
    let ahead = ahead(tat, now);
    if ahead > tau { tau } else { ahead }
}

/// The corrected TAT for one that is further ahead than packets can bring it: after the clock was set back, or after
/// more than 1.14 years without packets. In the first case the bucket is empty from `now` on, so that no source is locked
/// out for longer than a burst takes to refill. In the second case ([`BACK_MAX`]) it is full.
///
/// After 2.28 years without packets the ticks have wrapped, and the bucket counts as used just now: it may be less than
/// full if the source comes back in the last `tau` + `beyond` + 19 hours before that.
///
/// A TAT up to `beyond` ahead of an empty bucket's stays. `beyond` is [`SKEW_MAX`] for another CPU's clock: a
/// correction would give the difference between two clocks again and again. It is [`DEBT_MAX`] for charges of other
/// hosts.
#[inline(always)]
pub const fn corrected(tat: u64, now: u64, tau: u64, beyond: u64) -> Option<u64> {
    let ahead = ahead(tat, now);
    if ahead > tau + beyond + BACK_MAX {
        Some(time(now))
    } else if ahead > tau + beyond {
        Some(time(now.wrapping_add(tau)))
    } else {
        None
    }
}

/// Ticks since the bucket became full, at `now`. None if it is not full. A full bucket can be removed without loss.
#[inline(always)]
pub const fn full_for(tat: u64, now: u64) -> Option<u64> {
    let since = now.wrapping_sub(tat);
    if since.cast_signed() < 0 {
        None
    } else {
        Some(since)
    }
}

/// A bucket's decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The bucket has enough tokens. A charge sets its TAT to `tat`.
    Admit {
        /// The new TAT.
        tat: u64,
    },
    /// The bucket has too few tokens, and stays unchanged.
    Refuse {
        /// Ticks until the same packet would be admitted, if nothing else is charged meanwhile.
        wait: u64,
    },
}

/// Decides about a packet that costs `cost` ticks at `now`, in a bucket that is `tau` ticks deep. After a refusal, the
/// caller checks whether the TAT must be [`corrected`].
///
/// `cost` and `tau` are at most [`TAU_MAX`], which keeps the sum below 2^64.
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

/// The TAT for the moment `tick`. Skips the marks, by at most four ticks, and always towards refusing.
#[inline(always)]
pub const fn time(tick: u64) -> u64 {
    if is_time(tick) { tick } else { REST + 1 }
}

/// The TAT without a charge of `cost` ticks at `charged`. The refill from then to `now` stays charged: without the
/// charge, the bucket might have been full. So a refund never gives too much.
#[inline(always)]
pub const fn refunded(tat: u64, cost: u64, charged: u64, now: u64) -> u64 {
    let elapsed = ahead(now, charged);
    if elapsed >= cost {
        return tat;
    }
    time(tat.wrapping_sub(cost - elapsed))
}
