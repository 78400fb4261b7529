//! Converts buckets when the quota of their limit changes. Spent tokens stay spent, and a bucket is never deeper than
//! the new burst. The bucket refills on the old quota up to the change, and on the new quota from then on.

use crate::{
    arithmetic::{bucket, quota::Quota, window::Window},
    pod::{Pod as _, pod},
};

/// Stored changes of a limit's quota.
pub const PAST_QUOTAS: u32 = 8;

/// Depth and refill of a bucket, as in [`Quota`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Shape {
    /// Ticks, or tokens of a fixed window.
    pub tau: u64,
    /// Period 0: a token bucket.
    pub window: Window,
}

pod!(Shape: tau window);

impl From<&Quota> for Shape {
    fn from(quota: &Quota) -> Self {
        Self {
            tau: quota.tau,
            window: quota.window,
        }
    }
}

/// One change of quota.
///
/// Spent tokens are measured in chunks, rounded up, because the kernel program has no 128-bit products. User space
/// chooses chunks of about a millionth of the burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Rescale {
    /// Time at which the new quota took effect, in nanoseconds.
    pub since: u64,
    /// The old bucket.
    pub from: Shape,
    /// The new bucket.
    pub to: Shape,
    /// Units of `from.tau` in one chunk; 0 for [`Rescale::skip`].
    pub chunk_from: u64,
    /// One chunk on the new quota: units of `to.tau` times `1 << chunk_shift`, rounded up.
    pub chunk_to: u64,
    /// Fractional bits of `chunk_to`.
    pub chunk_shift: u64,
    /// With more spent chunks, the bucket is empty on the new quota. The product with `chunk_to` is below 2^63.
    pub chunks_most: u64,
}

pod!(Rescale: since from to chunk_from chunk_to chunk_shift chunks_most);

impl Rescale {
    /// No change. Fills unused elements of [`crate::abi::rules::Limit::past`].
    pub const NONE: Self = Self {
        chunk_from: 1,
        chunk_to: 1,
        ..Self::ZEROS
    };

    /// The first change of a new limit. A bucket that a former limit left in its slot is empty from `since` on, unless
    /// it was full.
    pub fn anew(quota: &Quota, since: u64) -> Self {
        Self {
            since,
            from: quota.into(),
            to: quota.into(),
            ..Self::NONE
        }
    }

    /// A change that keeps the TAT and skips the next change. Used when a trial is kept, between the trial's quota and
    /// that of its fallback: the trial's buckets stay unchanged.
    pub fn skip(quota: &Quota, since: u64) -> Self {
        Self {
            chunk_from: 0,
            ..Self::anew(quota, since)
        }
    }

    /// True if this is [`Self::skip`].
    #[inline(always)]
    pub const fn is_skip(&self) -> bool {
        self.chunk_from == 0
    }

    /// Converts a TAT on the old quota to the new quota.
    ///
    /// A TAT that the old program wrote after `since`, while the new program was being loaded, counts from that later
    /// moment on.
    #[inline(always)]
    pub const fn apply(&self, word: u64) -> u64 {
        let (late, spent) = self.standing(word);
        let carried = self.carried(spent);
        if self.to.window.period == 0 {
            let from = bucket::ticks(self.since).wrapping_add(late);
            bucket::time(from.wrapping_add(carried))
        } else {
            let from = self.since.wrapping_add(late >> bucket::TICK_SHIFT);
            self.to.window.word(from, self.to.tau - carried)
        }
    }

    /// Ticks from `since` to the moment that the TAT describes, and the amount spent at that moment.
    #[inline(always)]
    const fn standing(&self, word: u64) -> (u64, u64) {
        let Shape { tau, window } = &self.from;
        if window.period != 0 {
            let (late, left) = window.standing(word, self.since, *tau);
            return (bucket::ticks(late), *tau - left);
        }
        let since = bucket::ticks(self.since);
        let ahead = bucket::ahead(word, since);
        if ahead > *tau {
            // The bucket was then empty.
            (ahead - *tau, *tau)
        } else {
            (0, ahead)
        }
    }

    /// Converts an amount of the old bucket to the new quota.
    #[inline(always)]
    const fn carried(&self, spent: u64) -> u64 {
        // Checked, because the verifier refuses a division that could panic.
        match spent
            .wrapping_add(self.chunk_from - 1)
            .checked_div(self.chunk_from)
        {
            Some(chunks) if chunks <= self.chunks_most => {
                let fraction = (1 << (self.chunk_shift & 63)) - 1;
                let carried = (chunks * self.chunk_to + fraction) >> (self.chunk_shift & 63);
                if carried > self.to.tau {
                    self.to.tau
                } else {
                    carried
                }
            }
            _ => self.to.tau,
        }
    }

    /// The TAT of a bucket that was empty at this change.
    #[inline(always)]
    const fn empty(&self) -> u64 {
        let Shape { tau, window } = &self.from;
        if window.period == 0 {
            bucket::time(bucket::ticks(self.since).wrapping_add(*tau))
        } else {
            window.word(self.since, 0)
        }
    }
}

/// Converts the TAT of a bucket that has missed the last `behind` changes of quota to the present quota.
///
/// `past(0)` is the newest of `known` changes; `past` returns none only for an index that is not below `known`. A
/// bucket that has missed more changes counts as empty at the oldest known change, which errs towards refusing.
#[inline(always)]
pub fn carry_over<'a>(
    word: u64,
    behind: u32,
    known: u32,
    past: impl Fn(u32) -> Option<&'a Rescale>,
) -> Option<u64> {
    let mut word = word;
    let mut steps = behind;
    if behind > known {
        word = past(known.wrapping_sub(1))?.empty();
        steps = known;
    }
    let mut skips = false;
    // The verifier of old kernels requires a constant bound.
    for step in 0..PAST_QUOTAS {
        if step >= steps {
            break;
        }
        let change = past(steps - 1 - step)?;
        if skips || change.is_skip() {
            skips = !skips;
        } else {
            word = change.apply(word);
        }
    }
    Some(word)
}
