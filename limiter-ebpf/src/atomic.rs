//! Atomic operations on words in maps, as single BPF instructions.
//!
//! Inline assembly, because `core::sync::atomic` has neither compare-and-swap nor fetch-and-add on this target, and
//! LLVM miscompiles the *result* of relaxed atomic additions (aya#1268). The instructions are sequentially consistent
//! (Documentation/bpf/standardization, "Atomic operations") and need Linux 5.12 on x86-64, 5.18 on arm64.

use core::arch::asm;

/// Replaces `expected` with `new` if the word is `expected`. Returns the former value.
///
/// # Safety
/// `word` points into a map value and is aligned to eight bytes; the verifier checks the first.
#[inline(always)]
pub unsafe fn compare_and_swap(word: *mut u64, expected: u64, new: u64) -> u64 {
    let before;
    // SAFETY: the caller vouches for `word`; the instruction clobbers nothing but r0.
    unsafe {
        asm!(
            "r0 = cmpxchg_64({word} + 0, r0, {new})",
            word = in(reg) word,
            new = in(reg) new,
            inlateout("r0") expected => before,
            options(nostack),
        );
    }
    before
}

/// Adds to the word. Returns the former value.
///
/// # Safety
/// As for [`compare_and_swap`].
#[inline(always)]
pub unsafe fn fetch_add(word: *mut u64, amount: u64) -> u64 {
    let mut before = amount;
    // SAFETY: the caller vouches for `word`; the operand register takes the old value.
    unsafe {
        asm!(
            "{amount} = atomic_fetch_add((u64 *)({word} + 0), {amount})",
            word = in(reg) word,
            amount = inout(reg) before,
            options(nostack),
        );
    }
    before
}

/// Adds to the word.
///
/// # Safety
/// As for [`compare_and_swap`].
#[inline(always)]
pub unsafe fn add(word: *mut u64, amount: u64) {
    // SAFETY: the caller vouches for `word`; no register changes.
    unsafe {
        asm!(
            "lock *(u64 *)({word} + 0) += {amount}",
            word = in(reg) word,
            amount = in(reg) amount,
            options(nostack),
        );
    }
}

/// Reads the word once. Not a memory barrier: callers that need an order read again after a compare-and-swap.
///
/// # Safety
/// As for [`compare_and_swap`].
#[inline(always)]
pub unsafe fn load(word: *const u64) -> u64 {
    // SAFETY: the caller vouches for `word`.
    unsafe { word.read_volatile() }
}
