//! One entry of the table: key, bucket and two counters, in four words that all CPUs use at the same time.
//!
//! Only the CPU that has replaced the TAT with [`BUSY`] writes the key. Other CPUs read the TAT, then the key, decide, and
//! replace the TAT by compare-and-swap. Then they read the key again: the entry may have changed hands meanwhile.
//!
//! An entry does not change hands with an unchanged TAT: the new bucket is full later than the old one was. If the old
//! bucket was not full (its source was reset or replaced, or its limit is gone), the two TATs may be the same tick by chance. Then
//! the charge of one concurrent packet is lost.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::{
    arithmetic::{
        bucket::{self, BUSY, FREE, REST},
        size,
    },
    pod::pod,
    policy::verdict::Reason,
    table::{key::SourceKey, word::Word},
};

/// Index of the word with the address: IPv4 with the key's scope, or the first half of IPv6.
pub const ADDRESS: usize = 0;
/// Index of the bucket's TAT; see [`crate::arithmetic::bucket`] and [`crate::arithmetic::window`].
pub const TAT: usize = 1;
/// Index of the word with the count of passed packets and, below it, the key's port.
pub const PASSED: usize = 2;
/// Index of the word with the count of packets over the limit and, below it, the epoch of the TAT and the rest of the
/// key's scope.
pub const OVER: usize = 3;

/// An entry in memory. A key of more than 64 bits takes two entries: an even-numbered one, and the next one for the
/// second half of the address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// The words, at [`ADDRESS`], [`TAT`], [`PASSED`] and [`OVER`].
    pub words: [u64; 4],
}

pod!(Entry: words);

/// Bits below a counter. An overflow of the counter does not change them.
pub const COUNTER_SHIFT: u32 = 16;
/// One packet in a word with a counter.
pub const ONE_PACKET: u64 = 1 << COUNTER_SHIFT;
const BELOW_COUNTER: u64 = ONE_PACKET - 1;

const EPOCH_SHIFT: u32 = 8;
const SCOPE_MASK: u64 = (1 << EPOCH_SHIFT) - 1;
/// Bits of an epoch that an entry keeps.
const EPOCH_MASK: u64 = BELOW_COUNTER >> EPOCH_SHIFT;

/// The most changes of quota that a stored epoch may be behind: half the range of its bits, less one. User space must
/// not exceed it.
pub const BEHIND_MAX: u32 = (1 << (COUNTER_SHIFT - EPOCH_SHIFT - 1)) - 1;

/// The counter in a word.
#[inline(always)]
pub const fn counter(word: u64) -> u64 {
    word >> COUNTER_SHIFT
}

/// The epoch in [`OVER`], at most [`BEHIND_MAX`] changes away from `present`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the bits that are kept")]
pub const fn epoch_in(over: u64, present: u32) -> u32 {
    let kept = (over >> EPOCH_SHIFT) as u8;
    let behind = (present as u8).wrapping_sub(kept).cast_signed();
    present.wrapping_sub((behind as i32).cast_unsigned())
}

/// The slot of the limit in [`OVER`].
#[inline(always)]
pub const fn slot_in(over: u64) -> u32 {
    crate::table::key::slot_in(over & SCOPE_MASK)
}

/// True if the key takes two entries, from its part in [`OVER`].
#[inline(always)]
pub const fn is_wide(over: u64) -> bool {
    crate::table::key::is_wide(over & SCOPE_MASK)
}

/// [`OVER`] with another epoch.
#[inline(always)]
pub const fn with_epoch(over: u64, epoch: u32) -> u64 {
    (over & !(EPOCH_MASK << EPOCH_SHIFT)) | ((epoch as u64 & EPOCH_MASK) << EPOCH_SHIFT)
}

/// [`OVER`] without its counter.
#[inline(always)]
pub const fn without_counter(over: u64) -> u64 {
    over & BELOW_COUNTER
}

/// A bucket, as [`Shared::read`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A TAT on the present quota.
    Present(u64),
    /// No TAT: another CPU is writing the entry.
    Busy,
    /// A TAT on a past quota.
    Stale,
    /// The entry does not belong to the source.
    Elsewhere,
}

/// An entry that several CPUs use at the same time.
pub trait Shared: Copy {
    /// The type of a word.
    type Word: Word;
    /// The word with this index.
    fn word(self, index: usize) -> Self::Word;
    /// The next entry of the pair. Call it on an even-numbered entry.
    fn next(self) -> Self;

    /// The entry with this number, below [`crate::table::WAYS`], of the set. Call it on the set's first entry.
    #[inline(always)]
    fn at(self, way: u32) -> Self {
        if way == 0 { self } else { self.next() }
    }

    /// [`Word::load`] of the word with this index.
    #[inline(always)]
    fn load(self, word: usize) -> u64 {
        self.word(word).load()
    }

    /// [`Word::swap`] of the word with this index.
    #[inline(always)]
    fn swap(self, word: usize, expected: u64, new: u64) -> bool {
        self.word(word).swap(expected, new)
    }

    /// [`Word::store`] to the word with this index.
    #[inline(always)]
    fn store(self, word: usize, value: u64) {
        self.word(word).store(value);
    }

    /// [`Word::add`] to the word with this index.
    #[inline(always)]
    fn add(self, word: usize, amount: u64) {
        self.word(word).add(amount);
    }

    /// True if the entry has this key. If its TAT is not a time, the key is not valid, or is about to change.
    #[inline(always)]
    fn is_of(self, key: &SourceKey) -> bool {
        self.begins_with(key) && (key.rest == 0 || self.next().load(ADDRESS) == key.rest)
    }

    /// True if the entry has this key, not comparing the second half of an address.
    #[inline(always)]
    fn begins_with(self, key: &SourceKey) -> bool {
        if self.load(ADDRESS) != key.first {
            return false;
        }
        let other_port = (self.load(PASSED) ^ u64::from(key.port())) & BELOW_COUNTER;
        let other_limit = (self.load(OVER) ^ key.limit()) & SCOPE_MASK;
        other_port | other_limit == 0
    }

    /// Counts one packet of the source.
    #[inline(always)]
    fn count(self, reason: Reason, size: u64) {
        let packets = ONE_PACKET.wrapping_mul(size::packets(size));
        if reason.passes() {
            self.add(PASSED, packets);
        }
        if !reason.passes() || reason.would_drop() {
            self.add(OVER, packets);
        }
    }

    /// Counts packets of the source that have passed.
    #[inline(always)]
    fn count_passed(self, packets: u64) {
        self.add(PASSED, packets.wrapping_mul(ONE_PACKET));
    }

    /// Uncounts packets of the source that had passed.
    #[inline(always)]
    fn uncount(self, packets: u64) {
        self.add(PASSED, packets.wrapping_mul(ONE_PACKET).wrapping_neg());
    }

    /// The key of the entry.
    #[inline(always)]
    fn key(self) -> SourceKey {
        let mut key = SourceKey {
            first: self.load(ADDRESS),
            rest: 0,
            scope: (self.load(PASSED) & BELOW_COUNTER)
                | ((self.load(OVER) & SCOPE_MASK) << COUNTER_SHIFT),
        };
        if key.is_wide() {
            key.rest = self.next().load(ADDRESS);
        }
        key
    }

    /// Reads the bucket of `key`, on the quota of `epoch`. The key is read after the TAT and compared once. A caller that
    /// does not swap the TAT asks [`Self::has_still`], because the entry may have changed in between.
    #[inline(always)]
    fn read(self, key: &SourceKey, epoch: u32) -> Stored {
        let tat = self.load(TAT);
        let other_address = self.load(ADDRESS) ^ key.first;
        // Port, slot and epoch in one comparison.
        let other_port = self.load(PASSED) ^ key.scope;
        let other_limit = self.load(OVER) ^ key.limit();
        let other_epoch = other_limit ^ (u64::from(epoch) << EPOCH_SHIFT);
        if other_address == 0
            && (other_port | other_epoch) & BELOW_COUNTER == 0
            && bucket::is_time(tat)
            && (key.rest == 0 || self.next().load(ADDRESS) == key.rest)
        {
            return Stored::Present(tat);
        }
        if other_address | other_port & BELOW_COUNTER | other_limit & SCOPE_MASK != 0
            || key.rest != 0 && self.next().load(ADDRESS) != key.rest
            || !is_taken(tat)
        {
            Stored::Elsewhere
        } else if tat == BUSY {
            Stored::Busy
        } else {
            Stored::Stale
        }
    }

    /// True if the entry still has this TAT. Then what [`Self::read`] has read belongs together, because a CPU that changes
    /// the key or the epoch marks the TAT first. A change of quota may leave the TAT as it is: then it counts as one of the
    /// new quota.
    #[inline(always)]
    fn has_still(self, tat: u64) -> bool {
        self.load(TAT) == tat
    }

    /// Replaces the TAT `expected` with `charged`. Returns whether the key's bucket was charged.
    #[inline(always)]
    fn charge(self, key: &SourceKey, expected: u64, charged: u64) -> bool {
        // Checked before the swap too: the entry may belong to another source at the swap, and be back afterwards.
        self.is_of(key) && self.charge_read(key, expected, charged)
    }

    /// [`Self::charge`] of a TAT that [`Self::read`] has returned: the key was compared after the TAT was read.
    #[inline(always)]
    fn charge_read(self, key: &SourceKey, expected: u64, charged: u64) -> bool {
        if !self.swap(TAT, expected, charged) {
            return false;
        }
        if self.is_of(key) {
            return true;
        }
        // Another source was charged. If its bucket has changed since, the charge stays, which errs towards refusing.
        self.swap(TAT, charged, expected);
        false
    }

    /// Replaces the TAT `expected`, on a past quota, with `converted`, on the quota of `epoch`. Returns whether it did.
    #[inline(always)]
    fn convert(
        self,
        key: &SourceKey,
        over: u64,
        expected: u64,
        converted: u64,
        epoch: u32,
    ) -> bool {
        if !self.swap(TAT, expected, BUSY) {
            return false;
        }
        // Another CPU may have converted the bucket since the caller read epoch and TAT, or the entry may have changed
        // hands. Counters may change at any time: after two attempts, the next packet tries again.
        let mut done = false;
        for _ in 0..2 {
            let present = self.load(OVER);
            if !self.is_of(key) || without_counter(present) != without_counter(over) {
                break;
            }
            if self.swap(OVER, present, with_epoch(present, epoch)) {
                done = true;
                break;
            }
        }
        self.swap(TAT, BUSY, if done { converted } else { expected });
        done
    }
}

/// The index of the first word of the next entry that is not free, from the one at `first` on. For user space.
pub fn next_used(words: &[AtomicU64], first: usize) -> Option<usize> {
    let mut firsts = (first..words.len()).step_by(size_of::<Entry>() / size_of::<u64>());
    firsts.find(|first| words[first + TAT].load(Ordering::Acquire) != FREE)
}

/// True if an entry with this TAT belongs to a source.
#[inline(always)]
pub const fn is_taken(tat: u64) -> bool {
    bucket::is_time(tat) || tat == BUSY
}

/// True if a CPU is writing the entry, or the entry is the second half of the one before it.
#[inline(always)]
pub(crate) const fn is_out_of_reach(tat: u64) -> bool {
    tat == BUSY || tat == REST
}
