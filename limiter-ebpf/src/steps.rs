//! Loops taken apart, in the program for processes without `CAP_PERFMON`.

/// Takes the steps `0..END` until one says that it is enough, and returns whether one has. The verifier
/// looks at what a CPU may run ahead of a branch there, and finds no end of a loop: each step stands for itself.
#[inline(always)]
pub fn any<const END: u32>(mut step: impl FnMut(u32) -> bool) -> bool {
    const { assert!(END <= STEPS_MAX) };
    macro_rules! take {
        ($($index:expr),+) => {
            $(if $index < END && step($index) {
                return true;
            })+
        };
    }
    macro_rules! take_eight {
        ($($first:literal),+) => {
            $(take!($first, $first + 1, $first + 2, $first + 3, $first + 4, $first + 5, $first + 6, $first + 7);)+
        };
    }
    take_eight!(0, 8, 16, 24, 32, 40, 48, 56);
    false
}

const STEPS_MAX: u32 = 64;
