//! Shares: each limit's own part of the table and of the new-source limit. A flood against one limit leaves room for
//! the sources of other limits.
//!
//! *Table*: the table counts the entries that each limit holds. A limit below its share always gets another entry. A
//! slow limit stops at its share. A quick limit, with buckets that are full again within seconds, also takes unused
//! room outside all shares.
//!
//! *New sources*: a token comes from the common bucket of all limits. If that is empty, it comes from the limit's own
//! bucket, and the common bucket is charged too and goes into debt. So the own buckets add nothing to the total. A
//! packet that makes buckets of several limits takes one token, from the first of them. The other limits, if not in
//! shadow, must have a token too, but keep it: a flood against a limit without tokens takes nothing from the others.

use crate::{
    abi::rules::NewSourceQuota,
    arithmetic::bucket::{self, Decision, SKEW_MAX},
};

/// The entries that a limit holds, from the word that counts them. The word may fall below 0: a program with one limit
/// does not count, and runs until a program that counts replaces it.
#[inline(always)]
pub const fn held(word: u64) -> u64 {
    if word.cast_signed() < 0 { 0 } else { word }
}

/// The entries that a limit keeps from other limits: its share, or the entries that it holds if these are more.
#[inline(always)]
pub const fn kept(held: u64, share: u64) -> u64 {
    if held > share { held } else { share }
}

/// True if `wanted` entries are within a limit's share. A limit with one bucket has a share of one, and is always
/// within it: further entries are left from a former limit in its slot, and must not keep that bucket out.
#[inline(always)]
pub const fn is_within(share: u64, wanted: u64) -> bool {
    wanted <= share || share == 1
}

/// A change to a bucket of new-source tokens. The caller makes it by compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Tokens come from the common bucket. Its TAT becomes `tat`.
    Common {
        /// Tokens.
        tokens: u64,
        /// The new TAT.
        tat: u64,
    },
    /// Tokens come from the limit's own bucket. Its TAT becomes `tat`. The caller charges the common bucket with
    /// [`NewSourceQuota::owed`].
    Own {
        /// Tokens.
        tokens: u64,
        /// The new TAT.
        tat: u64,
    },
    /// No bucket has a token.
    Nothing,
}

/// Operations on the buckets of new-source tokens. `now` is in ticks.
impl NewSourceQuota {
    /// The next step from these TATs: a lease, or a single token if no bucket has a whole lease.
    #[inline(always)]
    pub const fn take(&self, common: u64, own: u64, now: u64) -> Step {
        let mut tokens = self.lease;
        loop {
            if let Decision::Admit { tat } =
                bucket::decide(common, now, self.cost * tokens, self.tau)
            {
                return Step::Common { tokens, tat };
            }
            if self.own_cost != 0
                && let Decision::Admit { tat } =
                    bucket::decide(own, now, self.own_cost * tokens, self.own_tau)
            {
                return Step::Own { tokens, tat };
            }
            if tokens == 1 {
                return Step::Nothing;
            }
            tokens = 1;
        }
    }

    /// The common bucket's TAT after a charge of `tokens`, even if the bucket has fewer.
    #[inline(always)]
    pub const fn owed(&self, common: u64, now: u64, tokens: u64) -> u64 {
        let ahead = bucket::ahead(common, now);
        bucket::time(now.wrapping_add(ahead + self.cost * tokens))
    }

    /// The corrected TAT of the common bucket, if the clock was set back and the TAT is too far ahead.
    #[inline(always)]
    pub const fn corrected(&self, common: u64, now: u64) -> Option<u64> {
        bucket::corrected(common, now, self.tau + self.own_tau, SKEW_MAX)
    }

    /// The corrected TAT of the limit's own bucket, if the clock was set back and the TAT is too far ahead.
    #[inline(always)]
    pub const fn own_corrected(&self, own: u64, now: u64) -> Option<u64> {
        bucket::corrected(own, now, self.own_tau, SKEW_MAX)
    }
}
