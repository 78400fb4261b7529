//! One entry of the table: its key, its bucket, and two counters, in four words that all CPUs work on at once.
//!
//! The word of the bucket decides who may write. Only the CPU that has replaced it by [`BUSY`] writes the key. Every
//! other CPU reads the word, decides by it, and replaces it by compare-and-swap. Then it reads the key again: the entry
//! may have changed hands meanwhile. An entry never changes hands with a word that was there before: the new owner's
//! bucket is full later than the old one's was. If the old bucket was not full, because the operator has forgotten its
//! source or its limit has gone, the two words could be the same tick only by chance. That would cost the charge of a
//! packet that is under way at that moment.

use crate::{
    arithmetic::bucket::{self, BUSY, REST},
    policy::verdict::Reason,
    table::key::Tag,
};

/// Index of the word with the address: of IPv4 with the key's scope beside it, of IPv6 the first half.
pub const ADDRESS: usize = 0;
/// Index of the bucket's word; see [`crate::arithmetic::bucket`] and [`crate::arithmetic::window`].
pub const TAT: usize = 1;
/// Index of the word with the packets that passed, and with the key's port below them.
pub const PASSED: usize = 2;
/// Index of the word with the packets that were over the limit, and below them the epoch that the
/// TAT was written in and the rest of the key's scope.
pub const OVER: usize = 3;

/// An entry, as it stands in memory. A key of more than 64 bits takes two, the second one for the
/// second half of its address, and an even number first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// At the indices above.
    pub words: [u64; 4],
}

/// Bits below a counter. A sum that overflows does not reach them.
pub const COUNTER_SHIFT: u32 = 16;
/// One packet, in a word with a counter.
pub const ONE_PACKET: u64 = 1 << COUNTER_SHIFT;
const BELOW_COUNTER: u64 = ONE_PACKET - 1;

const EPOCH_SHIFT: u32 = 8;
const SCOPE_MASK: u64 = (1 << EPOCH_SHIFT) - 1;
/// Bits of an epoch that an entry keeps.
const EPOCH_MASK: u64 = BELOW_COUNTER >> EPOCH_SHIFT;

/// The most changes that an epoch may be behind so that its stored bits still tell it: half of their range, less one.
/// User space must not exceed it when it changes a quota.
pub const BEHIND_MAX: u32 = (1 << (COUNTER_SHIFT - EPOCH_SHIFT - 1)) - 1;

/// The counter in a word.
#[must_use]
#[inline(always)]
pub const fn counter(word: u64) -> u64 {
    word >> COUNTER_SHIFT
}

/// The epoch in [`OVER`], which is no more than [`BEHIND_MAX`] changes away from `present`.
#[must_use]
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the bits that are kept")]
pub const fn epoch_in(over: u64, present: u32) -> u32 {
    let kept = (over >> EPOCH_SHIFT) as u8;
    let behind = (present as u8).wrapping_sub(kept).cast_signed();
    present.wrapping_sub((behind as i32).cast_unsigned())
}

/// The slot of the limit in [`OVER`].
#[must_use]
#[inline(always)]
pub const fn slot_in(over: u64) -> u32 {
    crate::table::key::slot_in(over & SCOPE_MASK)
}

/// Whether a key takes two entries, by the part of it in [`OVER`].
#[must_use]
#[inline(always)]
pub const fn is_wide(over: u64) -> bool {
    crate::table::key::is_wide(over & SCOPE_MASK)
}

/// [`OVER`] with another epoch.
#[must_use]
#[inline(always)]
pub const fn with_epoch(over: u64, epoch: u32) -> u64 {
    (over & !(EPOCH_MASK << EPOCH_SHIFT)) | ((epoch as u64 & EPOCH_MASK) << EPOCH_SHIFT)
}

/// [`OVER`] without its packets.
#[must_use]
#[inline(always)]
pub const fn without_counter(over: u64) -> u64 {
    over & BELOW_COUNTER
}

/// An entry that others work on at the same time.
pub trait Shared: Copy {
    /// Reads a word.
    fn load(self, word: usize) -> u64;
    /// Replaces `expected` with `new`, if the word still is `expected`. Returns whether it did. Ordered before and
    /// after everything else.
    fn swap(self, word: usize, expected: u64, new: u64) -> bool;
    /// Writes a word that no other CPU writes.
    fn store(self, word: usize, value: u64);
    /// Adds to a word.
    fn add(self, word: usize, amount: u64);
    /// The entry after this one, which has an even number.
    #[must_use]
    fn next(self) -> Self;
}

/// Operations on an entry.
pub trait Protocol: Shared {
    /// Whether the entry belongs to the key; if its word is not a time, it does not, or not for long.
    #[inline(always)]
    fn is_of(self, tag: &Tag) -> bool {
        self.begins_with(tag) && (tag.rest == 0 || self.next().load(ADDRESS) == tag.rest)
    }

    /// Whether the entry is the key's, except for the second half of an address.
    #[inline(always)]
    fn begins_with(self, tag: &Tag) -> bool {
        if self.load(ADDRESS) != tag.address {
            return false;
        }
        let other_port = (self.load(PASSED) ^ tag.port()) & BELOW_COUNTER;
        let other_limit = (self.load(OVER) ^ tag.limit()) & SCOPE_MASK;
        other_port | other_limit == 0
    }

    /// Counts one packet of the source.
    #[inline(always)]
    fn count(self, reason: Reason) {
        if reason.passes() {
            self.add(PASSED, ONE_PACKET);
        }
        if !reason.passes() || reason.would_drop() {
            self.add(OVER, ONE_PACKET);
        }
    }

    /// Takes back that a packet of the source has passed.
    #[inline(always)]
    fn uncount(self) {
        self.add(PASSED, ONE_PACKET.wrapping_neg());
    }

    /// The key that the entry belongs to.
    #[inline(always)]
    fn tag(self) -> Tag {
        let mut tag = Tag {
            address: self.load(ADDRESS),
            rest: 0,
            scope: (self.load(PASSED) & BELOW_COUNTER)
                | ((self.load(OVER) & SCOPE_MASK) << COUNTER_SHIFT),
        };
        if tag.is_wide() {
            tag.rest = self.next().load(ADDRESS);
        }
        tag
    }

    /// Replaces the judged word with the charged one. Returns whether the key has been charged.
    #[inline(always)]
    fn charge(self, tag: &Tag, judged: u64, charged: u64) -> bool {
        // Before as well: after it alone, the entry could have come back from the source that was charged.
        if !self.is_of(tag) || !self.swap(TAT, judged, charged) {
            return false;
        }
        if self.is_of(tag) {
            return true;
        }
        // Another source was charged. If its bucket has changed since, the charge stays: that errs
        // towards refusing.
        self.swap(TAT, charged, judged);
        false
    }

    /// Replaces the word `judged`, on a past quota, with `converted`, on the quota of `epoch`. Returns whether it did.
    #[inline(always)]
    fn convert(self, tag: &Tag, over: u64, judged: u64, converted: u64, epoch: u32) -> bool {
        if !self.swap(TAT, judged, BUSY) {
            return false;
        }
        // Another CPU may have converted the bucket between the two reads of epoch and word, or the entry may have
        // changed hands. Counters change at any time: after two attempts, the next packet tries again.
        let mut done = false;
        for _ in 0..2 {
            let present = self.load(OVER);
            if !self.is_of(tag) || without_counter(present) != without_counter(over) {
                break;
            }
            if self.swap(OVER, present, with_epoch(present, epoch)) {
                done = true;
                break;
            }
        }
        self.swap(TAT, BUSY, if done { converted } else { judged });
        done
    }
}

impl<T: Shared> Protocol for T {}

/// Whether an entry with this word belongs to a source.
#[must_use]
#[inline(always)]
pub const fn is_taken(word: u64) -> bool {
    bucket::is_time(word) || word == BUSY
}

/// Whether a CPU is at work on the entry, or it belongs to the one before it.
#[must_use]
#[inline(always)]
pub(crate) const fn is_out_of_reach(word: u64) -> bool {
    word == BUSY || word == REST
}
