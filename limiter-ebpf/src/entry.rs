//! One entry of the table: a source's bucket and figures, in a map value that other CPUs work on too.

use limiter_common::{counters::Count, layout::Source, verdict::Reason};

use crate::atomic;

/// Points into a value of the hash map; only the table hands it out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry(*mut Source);

impl Entry {
    /// # Safety
    /// `source` came from a lookup in this run of the program.
    #[inline(always)]
    pub(crate) unsafe fn new(source: *mut Source) -> Self {
        Self(source)
    }

    #[inline(always)]
    fn word(self) -> *mut u64 {
        // SAFETY: a field of a map value, within its bounds.
        unsafe { &raw mut (*self.0).tat }
    }

    /// The bucket's word.
    #[inline(always)]
    pub fn tat(self) -> u64 {
        // SAFETY: the first word of a map value is aligned.
        unsafe { atomic::load(self.word()) }
    }

    /// Puts `new` in the place of `expected`, if the word still is that. Returns whether it was.
    #[inline(always)]
    pub fn swap_tat(self, expected: u64, new: u64) -> bool {
        // SAFETY: as above.
        unsafe { atomic::compare_and_swap(self.word(), expected, new) == expected }
    }

    /// The epoch on whose terms the word stands.
    #[inline(always)]
    pub fn epoch(self) -> u32 {
        // SAFETY: an aligned field of a map value.
        unsafe { (&raw const (*self.0).epoch).read_volatile() }
    }

    /// Sets the epoch, while the word is marked as being converted.
    #[inline(always)]
    pub fn set_epoch(self, epoch: u32) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.0).epoch).write_volatile(epoch) };
    }

    /// Index of the place that it has.
    #[inline(always)]
    pub fn place(self) -> u32 {
        // SAFETY: an aligned field of a map value.
        unsafe { (&raw const (*self.0).place).read_volatile() }
    }

    /// Counts one packet of this source.
    #[inline(always)]
    pub fn count(self, reason: Reason, length: u64) {
        // SAFETY: fields of a map value; `Count` is two aligned words.
        unsafe {
            if reason.passes() {
                add(&raw mut (*self.0).passed, length);
            } else {
                add(&raw mut (*self.0).dropped, length);
            }
            if reason.would_drop() {
                add(&raw mut (*self.0).would_drop, length);
            }
        }
    }

    /// Takes back that a packet of this source has passed.
    #[inline(always)]
    pub fn uncount(self, length: u64) {
        // SAFETY: as in `count`.
        unsafe {
            atomic::add(&raw mut (*self.0).passed.packets, u64::MAX);
            atomic::add(&raw mut (*self.0).passed.bytes, length.wrapping_neg());
        }
    }
}

/// # Safety
/// `count` points into a map value.
#[inline(always)]
unsafe fn add(count: *mut Count, length: u64) {
    // SAFETY: the caller vouches for it.
    unsafe {
        atomic::add(&raw mut (*count).packets, 1);
        atomic::add(&raw mut (*count).bytes, length);
    }
}
