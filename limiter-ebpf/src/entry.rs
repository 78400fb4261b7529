//! One entry of the table in a map value. [`limiter_common::table::entry`] has the operations.

use core::arch::asm;

use limiter_common::{
    abi, policy,
    table::{
        SharedSet, WAYS,
        entry::{self, ADDRESS, Shared},
    },
};

use crate::{atomic::Word, maps::SETS};

/// A set in a value of the map [`SETS`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Set(*mut abi::Set);

impl Set {
    /// The set with this number.
    #[inline(always)]
    pub fn get(number: u32) -> Option<Self> {
        SETS.get_ptr_mut(number).map(Self)
    }

    /// The first entry with this address. None if no entry has it.
    ///
    /// Without branches, so that the verifier does not know the number of the entry: it would check the rest of the
    /// program once for each entry. The run time is equal.
    #[inline(always)]
    pub fn entry_with(self, address: u64) -> Option<Entry> {
        let differs = |way| {
            let mut word = self.entry(way).load(ADDRESS);
            // SAFETY: arithmetic on registers. In assembly, because LLVM compiles a comparison to a branch.
            unsafe {
                asm!(
                    "{word} ^= {address}",
                    "{negative} = {word}",
                    "{negative} = -{negative}",
                    "{word} |= {negative}",
                    "{word} >>= 63",
                    word = inout(reg) word,
                    negative = out(reg) _,
                    address = in(reg) address,
                    options(pure, nomem, nostack),
                );
            }
            word
        };
        let (first, second) = (differs(0), differs(1));
        if first & second != 0 {
            return None;
        }
        Some(self.entry(first as u32))
    }
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
    /// The entry's number in the set.
    #[inline(always)]
    pub fn way(self) -> u32 {
        self.way % WAYS
    }
}

/// The result of a search for an entry.
#[derive(Clone, Copy)]
pub struct Found {
    /// Null if there is no entry.
    set: *mut abi::Set,
    way: u32,
}

impl policy::Found<Entry> for Found {
    const NONE: Self = Self {
        set: core::ptr::null_mut(),
        way: 0,
    };

    #[inline(always)]
    fn entry(self) -> Option<Entry> {
        if self.set.is_null() {
            return None;
        }
        Some(Entry {
            set: Set(self.set),
            way: self.way,
        })
    }
}

impl From<Entry> for Found {
    #[inline(always)]
    fn from(entry: Entry) -> Self {
        Self {
            set: entry.set.0,
            way: entry.way,
        }
    }
}

impl Shared for Entry {
    type Word = Word;

    #[inline(always)]
    fn word(self, index: usize) -> Word {
        let way = (self.way % WAYS) as usize;
        // SAFETY: a word of one of the set's entries; callers name words by constants.
        unsafe {
            let entries = (&raw mut (*self.set.0).entries).cast::<entry::Entry>();
            Word::at(entries.add(way).cast::<u64>().add(index))
        }
    }

    /// In assembly: LLVM would add to the address instead, and the verifier would not know its bounds.
    #[inline(always)]
    fn next(self) -> Self {
        let mut way = self.way as u64;
        // SAFETY: arithmetic on a register.
        unsafe {
            asm!("{way} |= 1", "{way} &= 1", way = inout(reg) way, options(nomem, nostack));
        }
        Self {
            way: way as u32,
            ..self
        }
    }
}
