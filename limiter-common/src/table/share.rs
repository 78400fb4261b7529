//! Shares: the part of the table and of the new-source limit that each limit has for itself, so that a flood
//! against one limit leaves room for the sources of the others.
//!
//! *Table*: the table counts the entries that each limit holds. A limit with fewer entries than its share takes
//! another one, whatever the others do. A slow limit stops there. A quick limit, with buckets that are full again
//! within seconds, also takes room that is in no limit's share and not in use.
//!
//! *New sources*: a token comes from the bucket that all limits share, or else from the limit's own bucket. What
//! the own bucket gives is charged to the common one too, which goes into debt by that. So the own buckets are a
//! guarantee, and no budget beside the common one. A packet that makes buckets of several limits takes one token, from
//! the first of them. Each of the others must have one too, which it keeps: so a flood against a limit that has no
//! token takes nothing from the others.

use crate::{
    abi::rules::NewSourceQuota,
    arithmetic::bucket::{self, Decision, SKEW_MAX},
};

/// The entries that a limit holds, from the word that counts them. The word may run below 0: a program with one limit
/// counts nothing, and runs until the program that begins to count takes its place.
#[must_use]
#[inline(always)]
pub const fn held(word: u64) -> u64 {
    if word.cast_signed() < 0 { 0 } else { word }
}

/// The entries that a limit keeps from the others: its share, or the entries it holds if these are more.
#[must_use]
#[inline(always)]
pub const fn kept(held: u64, share: u64) -> u64 {
    if held > share { held } else { share }
}

/// Whether so many entries are within a limit's share. A share of one is of a limit with one bucket: what it holds
/// beside that is left of a limit that had its slot before, and must not keep that bucket out.
#[must_use]
#[inline(always)]
pub const fn is_within(share: u64, wanted: u64) -> bool {
    wanted <= share || share == 1
}

/// A step towards tokens for new sources, to be put in place by compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many tokens come from the common bucket. Its word becomes `tat`.
    Common {
        /// Tokens.
        tokens: u64,
        /// The new word.
        tat: u64,
    },
    /// So many tokens come from the limit's own bucket. Its word becomes `tat`; the common bucket is to be
    /// charged with them by [`NewSourceQuota::owed`].
    Own {
        /// Tokens.
        tokens: u64,
        /// The new word.
        tat: u64,
    },
    /// There are none.
    Nothing,
}

/// Buckets of new sources. `now` is in ticks.
impl NewSourceQuota {
    /// The next step from these words: a lease, or a single token if there are fewer.
    #[must_use]
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

    /// The common bucket's word with `tokens` more charged, even if the bucket has fewer.
    #[must_use]
    #[inline(always)]
    pub const fn owed(&self, common: u64, now: u64, tokens: u64) -> u64 {
        let ahead = bucket::ahead(common, now);
        bucket::time(now.wrapping_add(ahead + self.cost * tokens))
    }

    /// The corrected word of the common bucket, if a clock that was set back has left it far ahead.
    #[must_use]
    #[inline(always)]
    pub const fn corrected(&self, common: u64, now: u64) -> Option<u64> {
        bucket::corrected(common, now, self.tau + self.own_tau, SKEW_MAX)
    }

    /// The corrected word of the limit's own bucket, if a clock that was set back has left it far ahead.
    #[must_use]
    #[inline(always)]
    pub const fn own_corrected(&self, own: u64, now: u64) -> Option<u64> {
        bucket::corrected(own, now, self.own_tau, SKEW_MAX)
    }
}
