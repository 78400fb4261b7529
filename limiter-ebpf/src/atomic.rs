//! Atomic operations on words in maps, as single BPF instructions.
//!
//! Inline assembly, because `core::sync::atomic` has neither compare-and-swap nor fetch-and-add on this target, and
//! LLVM miscompiles the *result* of relaxed atomic additions (aya#1268). The instructions are sequentially consistent
//! (Documentation/bpf/standardization, "Atomic operations") and need Linux 5.12 on x86-64, 5.18 on arm64.

use core::arch::asm;

use limiter_common::table::word;

/// A word of a map value.
#[derive(Clone, Copy)]
pub struct Word(*mut u64);

impl Word {
    /// # Safety
    /// `word` points into a map value and is aligned to eight bytes; the verifier checks the first.
    #[inline(always)]
    pub unsafe fn at(word: *mut u64) -> Self {
        Self(word)
    }

    /// Adds to the word. Returns the former value.
    #[inline(always)]
    pub fn fetch_add(self, amount: u64) -> u64 {
        let mut before = amount;
        // SAFETY: `at` vouches for the word; the operand register takes the old value.
        unsafe {
            asm!(
                "{amount} = atomic_fetch_add((u64 *)({word} + 0), {amount})",
                word = in(reg) self.0,
                amount = inout(reg) before,
                options(nostack),
            );
        }
        before
    }
}

impl word::Word for Word {
    /// Not a memory barrier: callers that need an order read again after a compare-and-swap.
    #[inline(always)]
    fn load(self) -> u64 {
        // SAFETY: `at` vouches for the word.
        unsafe { self.0.read_volatile() }
    }

    #[inline(always)]
    fn swap(self, expected: u64, new: u64) -> bool {
        let before: u64;
        // SAFETY: `at` vouches for the word; the instruction clobbers nothing but r0.
        unsafe {
            asm!(
                "r0 = cmpxchg_64({word} + 0, r0, {new})",
                word = in(reg) self.0,
                new = in(reg) new,
                inlateout("r0") expected => before,
                options(nostack),
            );
        }
        before == expected
    }

    #[inline(always)]
    fn store(self, value: u64) {
        // SAFETY: `at` vouches for the word.
        unsafe { self.0.write_volatile(value) }
    }

    #[inline(always)]
    fn add(self, amount: u64) {
        // SAFETY: `at` vouches for the word; no register changes.
        unsafe {
            asm!(
                "lock *(u64 *)({word} + 0) += {amount}",
                word = in(reg) self.0,
                amount = in(reg) amount,
                options(nostack),
            );
        }
    }
}
