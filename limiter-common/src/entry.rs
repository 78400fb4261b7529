//! One entry of the table: whose it is, its bucket, and two figures, in four words that all CPUs work
//! on at once. A key of more than one word takes two entries of a set that stand side by side, of which the
//! first has an even number.
//!
//! The word of the bucket says who may do what. Only the CPU that has put [`BUSY`] in the place of it
//! writes the key; everybody else takes the word, judges by it, and puts another one in its place by
//! compare-and-swap. What the key was is looked at again after that: an entry may have changed hands
//! meanwhile. It never does so with a word that was there before: the new owner's bucket is full
//! later than the old one's was.

use crate::bucket::{self, BUSY, REST, TIME_MIN};
use crate::key::{self, BEYOND_HEAD, Tag};

/// Index of the word with the head of the key, and the epoch on whose terms the bucket stands above it. In
/// the second entry of a key: its middle.
pub const KEY: usize = 0;
/// Index of the bucket's word; see [`crate::bucket`] and [`crate::window`]. In the second entry of a key: its
/// tail.
pub const TAT: usize = 1;
/// Index of the number of packets that passed.
pub const PASSED: usize = 2;
/// Index of the number of packets that were over the limit.
pub const OVER: usize = 3;

const EPOCH_SHIFT: u32 = u64::BITS - BEYOND_HEAD;

/// How far behind an epoch may be at most, for the bits that are kept of it to tell: whoever changes
/// terms sees to it. Half of their range, less one.
pub const BEHIND_MAX: u32 = (1 << (BEYOND_HEAD - 1)) - 1;

/// The epoch in a word at [`KEY`], which is no more than [`BEHIND_MAX`] changes away from `present`.
#[must_use]
#[inline(always)]
pub const fn epoch_in(key: u64, present: u32) -> u32 {
    let kept = (key >> EPOCH_SHIFT) as u8;
    let behind = (present as u8).wrapping_sub(kept).cast_signed();
    present.wrapping_sub((behind as i32).cast_unsigned())
}

/// A word at [`KEY`] without its epoch.
#[must_use]
#[inline(always)]
pub const fn head_in(key: u64) -> u64 {
    key & ((1 << EPOCH_SHIFT) - 1)
}

/// A word at [`KEY`] with another epoch.
#[must_use]
#[inline(always)]
pub const fn with_epoch(key: u64, epoch: u32) -> u64 {
    head_in(key) | ((epoch as u64) << EPOCH_SHIFT)
}

/// An entry that others work on at the same time.
pub trait Shared: Copy {
    /// Reads a word.
    fn load(self, word: usize) -> u64;
    /// Puts `new` in the place of `expected`, where the word still is that. Returns whether it was. Ordered
    /// before and after everything else.
    fn swap(self, word: usize, expected: u64, new: u64) -> bool;
    /// Writes a word that nobody else writes.
    fn store(self, word: usize, value: u64);
    /// Adds to a word.
    fn add(self, word: usize, amount: u64);
    /// The entry after this one, which has an even number.
    #[must_use]
    fn next(self) -> Self;
}

/// What is done to an entry.
pub trait Protocol: Shared {
    /// Whether it is the key's; a word that is no time says that it is not, or not for long.
    #[inline(always)]
    fn is_of(self, tag: &Tag) -> bool {
        let differs = (self.load(KEY) ^ tag.head) << BEYOND_HEAD;
        differs == 0
            && (!tag.is_wide() || {
                let second = self.next();
                second.load(KEY) == tag.middle && second.load(TAT) == tag.tail
            })
    }

    /// Whose it is.
    #[inline(always)]
    fn tag(self) -> Tag {
        let head = head_in(self.load(KEY));
        if !key::is_wide(head) {
            return Tag {
                head,
                middle: 0,
                tail: 0,
            };
        }
        let second = self.next();
        Tag {
            head,
            middle: second.load(KEY),
            tail: second.load(TAT),
        }
    }

    /// Puts the charged word in the place of the one that was judged. Returns whether the key has been
    /// charged.
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

    /// Brings the bucket, whose word on the past terms of `key` was `judged`, to `converted` on those of
    /// `epoch`.
    #[inline(always)]
    fn convert(self, key: u64, judged: u64, converted: u64, epoch: u32) {
        if !self.swap(TAT, judged, BUSY) {
            return;
        }
        // Another CPU may have converted it between the two reads that brought key and word, or the entry
        // may have changed hands. The user's side may change the epoch at any time.
        let done = self.swap(KEY, key, with_epoch(key, epoch));
        self.swap(TAT, BUSY, if done { converted } else { judged });
    }
}

impl<T: Shared> Protocol for T {}

/// Whether an entry with this word is somebody's.
#[must_use]
#[inline(always)]
pub const fn is_taken(word: u64) -> bool {
    bucket::is_time(word) || word == BUSY
}

/// Whether a CPU is at work on the entry, or it belongs to the one before it.
#[must_use]
#[inline(always)]
pub(crate) const fn is_out_of_reach(word: u64) -> bool {
    word == BUSY || is_rest(word)
}

/// Whether the entry belongs to the one before it.
#[must_use]
#[inline(always)]
pub(crate) const fn is_rest(word: u64) -> bool {
    word < TIME_MIN && word & REST == REST
}
