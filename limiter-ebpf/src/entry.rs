//! One entry of the table: a source's bucket and figures, in map values that other CPUs work on too. What
//! may be done to it is in [`limiter_common::entry`].

use core::arch::asm;

use limiter_common::{
    entry::{KEY, OVER, PASSED, Protocol, Shared, TAT, is_taken},
    key::{BEYOND_HEAD, Tag},
    layout,
    table::{SharedSet, WAYS},
    verdict::Reason,
};

use crate::atomic;
use crate::maps::FIGURES;

/// A set, in a value of the map of sets; only the table hands it out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Set {
    words: *mut layout::Set,
    number: u32,
}

impl Set {
    /// # Safety
    /// `words` came from a lookup of the set with this number, in this run of the program.
    #[inline(always)]
    pub(crate) unsafe fn new(words: *mut layout::Set, number: u32) -> Self {
        Self { words, number }
    }

    /// The entry of a source; of another one, where more than one looks like its own. Nothing where none
    /// does.
    ///
    /// Without branches: they would depend on what has just been missed in the cache, and half of them go
    /// the other way than predicted. The processor could not begin with the next packet meanwhile.
    #[inline(always)]
    pub fn entry_of(self, tag: &Tag) -> Option<Entry> {
        let way = if tag.is_wide() {
            let differs = |way| {
                let (first, second) = (self.entry(way), self.entry(way + 1));
                let key = differs_in(first.load(KEY) ^ tag.head, BEYOND_HEAD);
                let middle = second.load(KEY) ^ tag.middle;
                key | differs_in(middle | (second.load(TAT) ^ tag.tail), 0)
            };
            let (first, second) = (differs(0), differs(2));
            if first & second != 0 {
                return None;
            }
            2 * first
        } else {
            let differs = |way| differs_in(self.entry(way).load(KEY) ^ tag.head, BEYOND_HEAD);
            let (a, b, c, d) = (differs(0), differs(1), differs(2), differs(3));
            if a & b & c & d != 0 {
                return None;
            }
            // 0 where it is the first.
            6 - b - 2 * c - 3 * d
        };
        Some(self.entry(way as u32))
    }
}

/// 1 where a bit is set in the word that is not one of the `ignored` highest ones. Written out, because LLVM
/// makes a branch of a comparison.
#[inline(always)]
fn differs_in(word: u64, ignored: u32) -> u64 {
    let mut word = word << ignored;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!(
            "{negative} = {word}",
            "{negative} = -{negative}",
            "{word} |= {negative}",
            "{word} >>= 63",
            word = inout(reg) word,
            negative = out(reg) _,
            options(pure, nomem, nostack),
        );
    }
    word
}

impl SharedSet for Set {
    type Entry = Entry;

    #[inline(always)]
    fn entry(self, way: u32) -> Entry {
        Entry { set: self, way }
    }
}

/// An entry of a set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    set: Set,
    way: u32,
}

impl Entry {
    /// Its number in the table.
    #[inline(always)]
    pub fn number(self) -> u32 {
        self.set.number * WAYS + self.way
    }

    /// Whether it is the key's, which [`Set::entry_of`] has found, and nobody has forgotten it.
    #[inline(always)]
    pub fn is_still_of(self, tag: &Tag) -> bool {
        is_taken(self.tat()) && self.is_of(tag)
    }

    /// The bucket's word.
    #[inline(always)]
    pub fn tat(self) -> u64 {
        self.load(TAT)
    }

    /// Counts one packet of this source.
    #[inline(always)]
    pub fn count(self, reason: Reason) {
        if reason.passes() {
            self.add(PASSED, 1);
        }
        if !reason.passes() || reason.would_drop() {
            self.add(OVER, 1);
        }
    }

    /// Takes back that a packet of this source has passed.
    #[inline(always)]
    pub fn uncount(self) {
        self.add(PASSED, u64::MAX);
    }

    /// Where a word is. Callers name words by constants. Nothing for a figure that is not there, which the
    /// verifier wants to be thought of.
    #[inline(always)]
    fn word(self, word: usize) -> Option<*mut u64> {
        let way = (self.way % WAYS) as usize;
        // SAFETY: words of values of maps.
        unsafe {
            match word {
                KEY => Some((&raw mut (*self.set.words).keys).cast::<u64>().add(way)),
                TAT => Some((&raw mut (*self.set.words).buckets).cast::<u64>().add(way)),
                PASSED => {
                    let figures = FIGURES.get_ptr_mut(self.set.number)?;
                    Some((&raw mut (*figures).passed).cast::<u64>().add(way))
                }
                _ => {
                    let figures = FIGURES.get_ptr_mut(self.set.number)?;
                    Some((&raw mut (*figures).over).cast::<u64>().add(way))
                }
            }
        }
    }
}

/// Where an entry was found.
#[derive(Clone, Copy)]
pub struct Found {
    /// Null: nowhere.
    words: *mut layout::Set,
    number: u32,
    way: u32,
}

impl Found {
    /// There was none.
    pub const NOWHERE: Self = Self {
        words: core::ptr::null_mut(),
        number: 0,
        way: 0,
    };

    /// The entry.
    #[inline(always)]
    pub fn entry(self) -> Option<Entry> {
        let Self { words, number, way } = self;
        if words.is_null() {
            return None;
        }
        Some(Entry {
            set: Set { words, number },
            way,
        })
    }
}

impl From<Entry> for Found {
    #[inline(always)]
    fn from(entry: Entry) -> Self {
        let Entry {
            set: Set { words, number },
            way,
        } = entry;
        Self { words, number, way }
    }
}

impl Shared for Entry {
    #[inline(always)]
    fn load(self, word: usize) -> u64 {
        match self.word(word) {
            // SAFETY: an aligned word of a map value.
            Some(word) => unsafe { atomic::load(word) },
            None => 0,
        }
    }

    #[inline(always)]
    fn swap(self, word: usize, expected: u64, new: u64) -> bool {
        match self.word(word) {
            // SAFETY: as above.
            Some(word) => unsafe { atomic::compare_and_swap(word, expected, new) == expected },
            None => false,
        }
    }

    #[inline(always)]
    fn store(self, word: usize, value: u64) {
        if let Some(word) = self.word(word) {
            // SAFETY: as above.
            unsafe { word.write_volatile(value) }
        }
    }

    #[inline(always)]
    fn add(self, word: usize, amount: u64) {
        if let Some(word) = self.word(word) {
            // SAFETY: as above.
            unsafe { atomic::add(word, amount) }
        }
    }

    /// By instructions that LLVM cannot look into: it would add to the address instead, whose bounds the
    /// verifier no longer knows then.
    #[inline(always)]
    fn next(self) -> Self {
        let mut way = self.way as u64;
        // SAFETY: arithmetic on a register.
        unsafe {
            asm!("{way} |= 1", "{way} &= 3", way = inout(reg) way, options(nomem, nostack));
        }
        Self {
            way: way as u32,
            ..self
        }
    }
}
