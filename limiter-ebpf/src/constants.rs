//! The program's constants, in a read-only section that user space fills before it loads the program. The verifier
//! knows the values and removes the branches that they switch off.

use core::arch::asm;

use limiter_common::abi::Constants;

/// Filled by the loader, under this name.
#[unsafe(no_mangle)]
static CONSTANTS: Constants = Constants::NONE;

/// The constants.
#[expect(
    clippy::pointers_in_nomem_asm_block,
    reason = "the empty assembly reads nothing"
)]
#[inline(always)]
pub fn constants() -> &'static Constants {
    let mut constants = &raw const CONSTANTS;
    // SAFETY: does nothing. It hides the address from the compiler, which would use the initial values. The section is
    // initialised and never changes while the program runs.
    unsafe {
        asm!("/* {0} */", inout(reg) constants, options(pure, nomem, nostack, preserves_flags));
        &*constants
    }
}

/// Reads a field of a map value once. Volatile, because user space may write it at any time.
macro_rules! read {
    ($pointer:expr, $($field:tt)+) => {
        // SAFETY: the pointer is to a map value, which is initialised, and the field aligned.
        unsafe { (&raw const (*$pointer).$($field)+).read_volatile() }
    };
}

/// The value that the caller of an exported function lends. Without it, the function returns 0.
macro_rules! lent {
    ($pointer:ident) => {
        // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
        let Some($pointer) = (unsafe { $pointer.as_ref() }) else {
            return 0;
        };
    };
}

pub(crate) use {lent, read};
