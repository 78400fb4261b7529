//! The policy's environment: the constants of a generation, the table of buckets, a clock and counters.

use super::{Evaluation, Match, bucket, fast, step};
use crate::{
    abi::rules,
    arithmetic::quota::Quota,
    policy::verdict::Reason,
    table::{
        Added,
        entry::Shared,
        key::{KeyMask, Tag},
    },
};

/// A limit, in the constants.
pub trait Limit: Copy {
    /// The type of its match.
    type Match: Match;
    /// The packets that the limit matches.
    fn matches(self) -> Self::Match;
    /// Its rate and burst. Read when they are needed, because the stack of the program in the kernel cannot keep them.
    fn quota(self) -> Quota;
    /// The part of a packet that makes its bucket.
    fn mask(self) -> KeyMask;
    /// Its position in the maps.
    fn slot(self) -> u32;
    /// Whether it drops nothing.
    fn shadow(self) -> bool;
    /// Number of changes of its quota.
    fn epoch(self) -> u32;
    /// Entries of the table that are kept for it.
    fn share(self) -> u64;
    /// Whether it takes more than its share if there is room that no other limit keeps.
    fn borrows(self) -> bool;
}

/// The constants of a generation.
pub trait Constants {
    /// The type of its limits.
    type Limit: Limit;

    /// A limit, 0 the first.
    fn limit(&self, index: u32) -> Option<Self::Limit>;
    /// Limits in use.
    fn limits_length(&self) -> u32;
    /// Index of the limit in a slot.
    fn index_of(&self, slot: u32) -> Option<u32>;
    /// Whether nothing is dropped.
    fn shadow(&self) -> bool;
    /// Whether malformed IP passes.
    fn malformed_passes(&self) -> bool;
    /// Whether control traffic is told apart.
    fn control(&self) -> bool;
    /// Whether limits look behind the IP header's fixed part.
    fn transport(&self) -> bool;
    /// Entries of the table that limits share; 0: there is one limit, which has them all.
    fn room(&self) -> u32;
    /// Whether packets of the host's connections are exempt.
    #[inline(always)]
    fn established(&self) -> bool {
        false
    }
}

/// An entry, if there is one. Not an [`Option`] in the kernel: without an entry, LLVM would copy a register that was
/// never written, which the verifier refuses.
pub trait Found<E>: Copy + From<E> {
    /// There was none.
    const NOWHERE: Self;
    /// The entry.
    fn entry(self) -> Option<E>;
}

impl<E: Copy> Found<E> for Option<E> {
    const NOWHERE: Self = None;

    fn entry(self) -> Self {
        self
    }
}

/// The moments between which a packet came, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Between {
    /// Not before this one.
    pub earliest: u64,
    /// Not after this one.
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
/// The functions with a body are the steps of the full path for one limit. The program in the kernel has them as
/// functions that the verifier checks by themselves, whatever the number of limits.
pub trait Engine: Constants + Sized {
    /// The type of the entries of its table.
    type Entry: Shared;
    /// The result of a search for an entry.
    type Found: Found<Self::Entry>;

    /// Limits that may match a packet, of those in use, by index.
    fn candidates(&self, evaluation: &Evaluation) -> u64;
    /// Candidates that need not match: [`step::confirm`] decides.
    fn uncertain(&self) -> u64;

    /// The time in nanoseconds; never 0.
    fn now(&self) -> u64;
    /// Bounds of the time that cost less to read, if there are any.
    #[inline(always)]
    fn between(&self) -> Option<Between> {
        None
    }

    /// Lists that decide about the packet's source. Counts the packet for each of these lists.
    fn lists(&self, evaluation: &Evaluation) -> u32;

    /// Number of a source's entry, counted from 1; 0: it has none.
    fn place_of(&self, tag: &Tag) -> u32;
    /// The entry with this number; none for 0.
    fn entry(&self, place: u32) -> Option<Self::Entry>;
    /// The entry of a source.
    #[inline(always)]
    fn find(&self, tag: &Tag) -> Option<Self::Entry> {
        self.entry(self.place_of(tag))
    }
    /// Whether the limit in `slot` has just refused a new source, and refuses this one too.
    #[inline(always)]
    fn is_out(&self, _slot: u32) -> bool {
        false
    }
    /// Whether the limit of a new source has a token of the new-source limit at `now`, which it keeps unless `take`,
    /// and room in the table.
    fn admits(&self, tag: &Tag, now: u64, take: bool) -> bool;
    /// Adds a source with this TAT, and counts its packet.
    fn insert(&self, tag: &Tag, tat: u64, epoch: u32, now: u64) -> Added;
    /// A TAT of an earlier epoch, on the present quota of the limit with this index. None if the epoch is later.
    #[inline(always)]
    fn on_present(&self, _index: u32, _epoch: u32, tat: u64) -> Option<u64> {
        Some(tat)
    }

    /// Counts one packet for the limit in `slot`.
    fn count_limit(&self, slot: u32, reason: Reason, length: u64);
    /// Takes back that a packet has passed the limit in `slot`.
    fn uncount_limit(&self, slot: u32, length: u64);

    /// [`bucket::refresh`]. Always 0.
    #[inline(always)]
    fn refresh_bucket(&self, tag: &Tag, index: u32) -> u32 {
        bucket::refresh(self, tag, index)
    }
    /// [`fast::charge_again`].
    #[inline(always)]
    fn charge_again(&self, tag: &Tag, length: u64) -> u32 {
        fast::charge_again(self, tag, length)
    }
    /// [`fast::add`].
    #[inline(always)]
    fn add_source(&self, tag: &Tag, length: u64) -> u32 {
        fast::add(self, tag, length)
    }

    steps! { confirm, check, reserve, charge, refresh, add, contended, refund, uncount, count_over }
}

macro_rules! fields {
    ($($name:ident: $type:ty = $limit:ident => $value:expr;)+) => {$(
        fn $name(self) -> $type {
            let $limit = self;
            $value
        }
    )+};
}

impl<'a> Limit for &'a rules::Limit {
    type Match = &'a rules::Match;

    fields! {
        matches: &'a rules::Match = limit => &limit.matches;
        quota: Quota = limit => limit.quota;
        mask: KeyMask = limit => limit.mask;
        slot: u32 = limit => limit.slot;
        shadow: bool = limit => limit.shadow != 0;
        epoch: u32 = limit => limit.epoch;
        share: u64 = limit => limit.share.into();
        borrows: bool = limit => limit.borrows != 0;
    }
}
