//! Numbers that the verifier is not to know, in the program for processes without `CAP_PERFMON`: it refuses an addition to a
//! pointer whose number is a constant on one path and another one, or unknown, on the next.

#[cfg(feature = "masked")]
static mut NOTHING: u64 = 0;

/// The number, which the verifier knows nothing of afterwards. Elsewhere nothing is done to it.
#[inline(always)]
pub fn number(value: u64) -> u64 {
    #[cfg(feature = "masked")]
    // SAFETY: nobody writes it. In a map that could be written to, so that the verifier does not read it.
    let value = unsafe { value ^ (&raw const NOTHING).read_volatile() };
    value
}

/// The same, where it is below `end`: the verifier is to find that out from the comparison.
#[inline(always)]
pub fn below(value: usize, end: usize) -> Option<usize> {
    let value = number(value as u64) as usize;
    (value < end).then_some(value)
}
