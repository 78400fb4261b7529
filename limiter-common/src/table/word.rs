//! A word of memory that several CPUs use at the same time.

use core::cell::Cell;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::{AtomicU64, Ordering};

/// A word that several CPUs use at the same time.
pub trait Word: Copy {
    /// Reads the word.
    fn load(self) -> u64;
    /// Replaces `expected` with `new` if the word is `expected`. Returns whether it did. A full memory barrier.
    fn swap(self, expected: u64, new: u64) -> bool;
    /// Writes the word, which no other CPU writes.
    fn store(self, value: u64);
    /// Adds to the word.
    fn add(self, amount: u64);
}

/// A word that only one thread uses.
impl Word for &Cell<u64> {
    fn load(self) -> u64 {
        self.get()
    }

    fn swap(self, expected: u64, new: u64) -> bool {
        let is_expected = self.get() == expected;
        if is_expected {
            self.set(new);
        }
        is_expected
    }

    fn store(self, value: u64) {
        self.set(value);
    }

    fn add(self, amount: u64) {
        self.set(self.get().wrapping_add(amount));
    }
}

/// A word of a map, mapped into a process.
#[cfg(target_has_atomic = "64")]
impl Word for &AtomicU64 {
    fn load(self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn swap(self, expected: u64, new: u64) -> bool {
        self.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    fn store(self, value: u64) {
        self.store(value, Ordering::Release);
    }

    fn add(self, amount: u64) {
        self.fetch_add(amount, Ordering::SeqCst);
    }
}
