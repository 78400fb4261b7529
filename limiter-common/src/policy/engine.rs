//! The policy's environment: constants, the table of buckets, a clock and counters.

use super::{Evaluation, Match, bucket, fast, step};
use crate::{
    abi::rules,
    arithmetic::quota::Quota,
    policy::verdict::Reason,
    table::{
        Added,
        entry::Shared,
        key::{KeyMask, SourceKey},
    },
};

/// A limit in the constants.
pub trait Limit: Copy {
    /// The type of its match.
    type Match: Match;
    /// The packets that the limit matches.
    fn matches(self) -> Self::Match;
    /// The limit's rate and burst. Callers read them when needed: the kernel program's stack cannot hold them.
    fn quota(self) -> Quota;
    /// The part of a packet that selects its bucket.
    fn mask(self) -> KeyMask;
    /// The limit's position in the maps.
    fn slot(self) -> u32;
    /// Whether the limit drops nothing.
    fn shadow(self) -> bool;
    /// Number of changes of the limit's quota.
    fn epoch(self) -> u32;
    /// Entries of the table that are reserved for the limit.
    fn share(self) -> u64;
    /// Whether the limit may hold more than its share if no other limit keeps that room.
    fn borrows(self) -> bool;
}

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

/// The steps of the full path for one limit.
macro_rules! steps {
    ($($step:ident),+) => {$(
        #[doc = concat!("[`step::", stringify!($step), "`].")]
        #[inline(always)]
        fn $step(&self, evaluation: &mut Evaluation, index: u32) -> u32 {
            step::$step(self, evaluation, index)
        }
    )+};
}

/// The policy's environment. It handles one packet at a time on each CPU.
///
/// The kernel program overrides functions with a body, such as the steps of the full path, with global functions, which
/// the verifier checks once.
pub trait Engine: Sized {
    /// The type of the limits in the constants.
    type Limit: Limit;
    /// The type of the table's entries.
    type Entry: Shared;
    /// The result of a search for an entry.
    type Found: Found<Self::Entry>;

    /// The limit with this index.
    fn limit(&self, index: u32) -> Option<Self::Limit>;
    /// Number of limits.
    fn limits_length(&self) -> u32;
    /// Index of the limit in `slot`.
    fn index_of(&self, slot: u32) -> Option<u32>;
    /// True if nothing is dropped.
    fn shadow(&self) -> bool;
    /// True if malformed IP packets pass.
    fn malformed_passes(&self) -> bool;
    /// True if control traffic has limits of its own.
    fn control(&self) -> bool;
    /// True if limits use fields behind the fixed part of the IP header.
    fn transport(&self) -> bool;
    /// Entries of the table that limits share; 0: one limit has the whole table.
    fn room(&self) -> u32;
    /// True if packets of the host's connections are exempt.
    #[inline(always)]
    fn established(&self) -> bool {
        false
    }

    /// Bits of the limits that may match a packet, by index.
    fn candidates(&self, evaluation: &Evaluation) -> u64;
    /// Bits of the candidates that need not match: [`step::confirm`] decides.
    fn uncertain(&self) -> u64;

    /// The present time in nanoseconds; never 0.
    fn now(&self) -> u64;
    /// Bounds of the present time, if they cost less than the time.
    #[inline(always)]
    fn time_bounds(&self) -> Option<TimeBounds> {
        None
    }

    /// Bits of the lists that decide about the packet's source. Counts the packet for each of these lists.
    fn lists(&self, evaluation: &Evaluation) -> u32;

    /// Number of a source's entry, counted from 1; 0 if the source has no entry.
    fn entry_number(&self, key: &SourceKey) -> u32;
    /// The entry with this number; none for 0.
    fn entry(&self, number: u32) -> Option<Self::Entry>;
    /// The entry of a source.
    #[inline(always)]
    fn find(&self, key: &SourceKey) -> Option<Self::Entry> {
        self.entry(self.entry_number(key))
    }
    /// Whether the limit in `slot` has just refused a new source, and refuses further ones too.
    #[inline(always)]
    fn is_exhausted(&self, _slot: u32) -> bool {
        false
    }
    /// Whether the limit of a new source has a new-source token at `now`, and room in the table. `take`: takes the
    /// token.
    fn admits(&self, key: &SourceKey, now: u64, take: bool) -> bool;
    /// Adds a source with this TAT and counts its packet.
    fn insert(&self, key: &SourceKey, tat: u64, epoch: u32, now: u64) -> Added;
    /// Converts a TAT of an earlier epoch to the present quota of the limit with this index. None if the epoch is
    /// later.
    #[inline(always)]
    fn on_present(&self, _index: u32, _epoch: u32, tat: u64) -> Option<u64> {
        Some(tat)
    }

    /// Counts one packet for the limit in `slot`.
    fn count_limit(&self, slot: u32, reason: Reason, length: u64);
    /// Uncounts a packet that the limit in `slot` had admitted.
    fn uncount_limit(&self, slot: u32, length: u64);

    /// [`bucket::refresh`]. Returns 0.
    #[inline(always)]
    fn refresh_bucket(&self, key: &SourceKey, index: u32) -> u32 {
        bucket::refresh(self, key, index)
    }
    /// [`fast::charge_again`].
    #[inline(always)]
    fn charge_again(&self, key: &SourceKey, length: u64) -> u32 {
        fast::charge_again(self, key, length)
    }
    /// [`fast::add`].
    #[inline(always)]
    fn add_source(&self, key: &SourceKey, length: u64) -> u32 {
        fast::add(self, key, length)
    }

    steps! { confirm, check, reserve, charge, refresh, add, contended, refund, uncount, count_over }
}

macro_rules! fields {
    ($limit:ident; $($name:ident: $type:ty = $value:expr;)+) => {$(
        fn $name(self) -> $type {
            let $limit = self;
            $value
        }
    )+};
}

impl<'a> Limit for &'a rules::Limit {
    type Match = &'a rules::Match;

    fields! { limit;
        matches: &'a rules::Match = &limit.matches;
        quota: Quota = limit.quota;
        mask: KeyMask = limit.mask;
        slot: u32 = limit.slot;
        shadow: bool = limit.shadow != 0;
        epoch: u32 = limit.epoch;
        share: u64 = limit.share.into();
        borrows: bool = limit.borrows != 0;
    }
}
