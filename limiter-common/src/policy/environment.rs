//! The policy's environment: constants, lists, the table of buckets, a clock and counters.

use super::Evaluation;
use crate::{
    abi::Constants,
    policy::verdict::Reason,
    table::{
        Added,
        entry::Shared,
        key::{Address, SourceKey},
    },
};

/// An optional entry. Not an [`Option`] in the kernel: LLVM would copy a register that was never written, which the
/// verifier refuses.
pub trait Found<E>: Copy + From<E> {
    /// No entry.
    const NONE: Self;
    /// The entry, if there is one.
    fn entry(self) -> Option<E>;
}

impl<E: Copy> Found<E> for Option<E> {
    const NONE: Self = None;

    fn entry(self) -> Self {
        self
    }
}

/// Bounds of a packet's arrival time, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct TimeBounds {
    /// The packet arrived no earlier.
    pub earliest: u64,
    /// The packet arrived no later.
    pub latest: u64,
}

/// The policy's environment. It handles one packet at a time on each CPU. Its functions know nothing of the policy's
/// own: those are [`super::Steps`].
pub trait Environment: Sized {
    /// True if the program is in the network stack, where packets may be merged, and can be delayed.
    const IN_STACK: bool = false;

    /// The type of the table's entries.
    type Entry: Shared;
    /// The result of a search for an entry.
    type Found: Found<Self::Entry>;

    /// The value. In the kernel, the compiler does not know it.
    #[inline(always)]
    fn hidden(value: u64) -> u64 {
        value
    }

    /// The constants.
    fn constants(&self) -> &Constants;

    /// The present time in nanoseconds; never 0.
    fn now(&self) -> u64;
    /// Bounds of the present time, if they cost less than the time.
    #[inline(always)]
    fn time_bounds(&self) -> Option<TimeBounds> {
        None
    }

    /// True if a ban drops a packet of this source that no list is asked about. Counts the packet for the ban.
    #[inline(always)]
    fn is_banned(&self, _source: &Address, _length: u64) -> bool {
        false
    }
    /// Bits of the lists that decide about the packet's source, and of a ban that drops it. Counts the packet for each
    /// of these.
    fn lists(&self, evaluation: &Evaluation) -> u32;
    /// Bits of the lists that an address is on.
    fn lists_of(&self, address: &Address) -> u32;

    /// Number of a source's entry, counted from 1; 0 if the source has no entry.
    fn entry_number(&self, key: &SourceKey) -> u32;
    /// The entry with this number; none for 0.
    fn entry(&self, number: u32) -> Option<Self::Entry>;
    /// The entry that has most likely the bucket of this key: the caller compares the key. None if there is no bucket.
    #[inline(always)]
    fn likely(&self, key: &SourceKey) -> Option<Self::Entry> {
        self.entry(self.entry_number(key))
    }
    /// Number of an entry that [`Self::likely`] has found; 0 if it must be searched again.
    #[inline(always)]
    fn number_of(&self, _: Self::Entry) -> u32 {
        0
    }
    /// True if the limit in `slot` has just refused a new source, and refuses further ones too.
    #[inline(always)]
    fn is_exhausted(&self, _slot: u32) -> bool {
        false
    }
    /// True if the limit of a new source has a token of the budget at `now`, and room in the table, which only first-time
    /// sources need. `take`: takes the token.
    fn admits(&self, key: &SourceKey, now: u64, budget: u32, take: bool) -> bool;
    /// True if the source was refused before, long enough ago for a second chance. Remembers that it is refused now.
    fn was_refused(&self, key: &SourceKey) -> bool;
    /// Adds a source with this TAT and counts its packet. `replaces`: only in the place of a quiet source of its limit.
    fn insert(&self, key: &SourceKey, tat: u64, epoch: u32, now: u64, replaces: bool) -> Added;
    /// [`crate::abi::rules::Limit::on_present`] of the limit with this index.
    #[inline(always)]
    fn on_present(&self, index: u32, epoch: u32, tat: u64) -> Option<u64> {
        self.constants().limit(index)?.on_present(epoch, tat)
    }

    /// True if some key is at its bound of open connections.
    #[inline(always)]
    fn is_any_full(&self) -> bool {
        false
    }
    /// The open connections of the key with this tag in this [`crate::open`] line.
    #[inline(always)]
    fn open_connections(&self, _line: u32, _tag: u64) -> u64 {
        0
    }

    /// The [`crate::arithmetic::scale`] of the adaptive limit in `slot`.
    #[inline(always)]
    fn scale(&self, _slot: u32) -> u64 {
        0
    }

    /// Counts one packet for the limit in `slot`.
    fn count_limit(&self, slot: u32, reason: Reason, length: u64);
    /// Uncounts a packet that the limit in `slot` had admitted.
    fn uncount_limit(&self, slot: u32, length: u64);
}
