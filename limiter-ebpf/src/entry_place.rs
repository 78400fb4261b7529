//! One entry of the table in a map value. [`limiter_common::table::entry`] has the operations.

use core::arch::asm;

use limiter_common::{
    abi, policy,
    table::{
        WAYS,
        entry::{self, ADDRESS, Shared},
    },
};

use crate::{atomic::Word, maps::SETS};

/// The place of an entry in a value of the map [`SETS`].
#[derive(Clone, Copy)]
pub struct EntryPlace {
    /// The set; null for [`policy::Found::NONE`].
    set: *mut abi::Set,
    /// The entry's number in the set.
    way: u32,
    /// The set's number.
    number: u32,
}

impl EntryPlace {
    /// The first entry of the set with this number.
    #[inline(always)]
    pub fn first_of(set: u32) -> Option<Self> {
        let number = set;
        let set = SETS.get_ptr_mut(set)?;
        Some(Self {
            set,
            way: 0,
            number,
        })
    }

    /// The entry's number in the table, counted from 1.
    #[inline(always)]
    pub fn number(self) -> u32 {
        self.number * WAYS + self.way() + 1
    }

    /// The entry's number in the set.
    #[inline(always)]
    pub fn way(self) -> u32 {
        self.way % WAYS
    }

    /// The first entry with this address in the set of this first entry. None if no entry has it.
    ///
    /// Without branches, so that the verifier does not know the number of the entry: it would check the rest of the
    /// program once for each entry. The run time is equal.
    #[inline(always)]
    pub fn with(self, address: u64) -> Option<Self> {
        let differs = |way| {
            let mut word = self.at(way).load(ADDRESS);
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
        Some(self.at(first as u32))
    }
}

/// The result of a search for an entry.
impl policy::Found<EntryPlace> for EntryPlace {
    const NONE: Self = Self {
        set: core::ptr::null_mut(),
        way: 0,
        number: 0,
    };

    #[inline(always)]
    fn entry(self) -> Option<Self> {
        (!self.set.is_null()).then_some(self)
    }
}

impl Shared for EntryPlace {
    type Word = Word;

    #[inline(always)]
    fn word(self, index: usize) -> Word {
        let way = (self.way % WAYS) as usize;
        // SAFETY: a word of one of the set's entries; callers name words by constants.
        unsafe {
            let entries = (&raw mut (*self.set).entries).cast::<entry::Entry>();
            Word::at(entries.add(way).cast::<u64>().add(index))
        }
    }

    #[inline(always)]
    fn at(self, way: u32) -> Self {
        Self { way, ..self }
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
