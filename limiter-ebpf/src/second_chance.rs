//! The refusals of [`limiter_common::policy::second_chance`] in a map.

use limiter_common::{
    policy::second_chance::{Line, Place, WORDS},
    table::key::SourceKey,
};

use crate::{clock, constants, counters, lent, maps::REFUSED};

/// True if the source was refused before, long enough ago for a second chance. Remembers that it is refused now.
#[inline(always)]
pub fn was_refused(key: &SourceKey) -> bool {
    constants().second_chances.cost != 0 && source_refused(key) != 0
}

/// [`was_refused`]: returns 1 or 0. A separate function, for its stack frame.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn source_refused(key: *const SourceKey) -> u32 {
    lent!(key);
    let place = Place::of(&constants().seed, key, constants().sets);
    let Some(line) = REFUSED.get_ptr_mut(place.line) else {
        return 0;
    };
    let was_refused = place.was_refused(InMap(line), clock::recent());
    if was_refused {
        counters::one_more(|counters| &mut counters.came_again);
    }
    was_refused.into()
}

/// A line in a map value.
#[derive(Clone, Copy)]
struct InMap(*mut [u32; WORDS as usize]);

impl InMap {
    #[inline(always)]
    fn word(self, index: u32) -> *mut u32 {
        let words = self.0.cast::<u32>();
        // SAFETY: the index is below the number of words.
        unsafe { words.add((index % WORDS) as usize) }
    }
}

impl Line for InMap {
    #[inline(always)]
    fn load(self, index: u32) -> u32 {
        // SAFETY: an aligned word of a map value.
        unsafe { self.word(index).read_volatile() }
    }

    #[inline(always)]
    fn store(self, index: u32, value: u32) {
        // SAFETY: an aligned word of a map value.
        unsafe { self.word(index).write_volatile(value) }
    }
}
