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
    /// The entry.
    entry: *mut entry::Entry,
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
            entry: set.cast(),
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
        let mut way = self.load(ADDRESS);
        // SAFETY: arithmetic on registers. In assembly, because LLVM compiles a comparison to a branch.
        unsafe {
            asm!(
                "{way} ^= {address}",
                "{negative} = {way}",
                "{negative} = -{negative}",
                "{way} |= {negative}",
                "{way} >>= 63",
                way = inout(reg) way,
                negative = out(reg) _,
                address = in(reg) address,
                options(pure, nomem, nostack),
            );
        }
        let found = self.kept_at(way as u32);
        (found.load(ADDRESS) == address).then_some(found)
    }

    /// The entry with this number of the set. Its address is kept.
    ///
    /// In assembly, because LLVM would compute the address again at each use. [`Shared::at`] leaves that to LLVM: where
    /// entries are taken, registers are few, and the stack is small.
    // The block computes with the pointer, and reads nothing through it.
    #[expect(clippy::pointers_in_nomem_asm_block)]
    #[inline(always)]
    pub fn kept_at(self, way: u32) -> Self {
        let mut entry = self.set.cast::<entry::Entry>();
        let offset = (way % WAYS) as usize * size_of::<entry::Entry>();
        // SAFETY: arithmetic on a register.
        unsafe {
            asm!("{entry} += {offset}", entry = inout(reg) entry, offset = in(reg) offset, options(pure, nomem, nostack));
        }
        Self { entry, way, ..self }
    }
}

/// The result of a search for an entry.
impl policy::Found<EntryPlace> for EntryPlace {
    const NONE: Self = Self {
        set: core::ptr::null_mut(),
        entry: core::ptr::null_mut(),
        way: 0,
        number: 0,
    };

    #[inline(always)]
    fn entry(self) -> Option<Self> {
        (!self.entry.is_null()).then_some(self)
    }
}

impl Shared for EntryPlace {
    type Word = Word;

    #[inline(always)]
    fn word(self, index: usize) -> Word {
        // SAFETY: a word of one of the set's entries; callers name words by constants.
        unsafe { Word::at(self.entry.cast::<u64>().add(index)) }
    }

    #[inline(always)]
    fn at(self, way: u32) -> Self {
        let entries = self.set.cast::<entry::Entry>();
        // SAFETY: one of the set's entries.
        let entry = unsafe { entries.add((way % WAYS) as usize) };
        Self { entry, way, ..self }
    }

    /// In assembly: LLVM would add to the address instead, and the verifier would not know its bounds.
    #[inline(always)]
    fn next(self) -> Self {
        let mut way = self.way as u64;
        // SAFETY: arithmetic on a register.
        unsafe {
            asm!("{way} |= 1", "{way} &= 1", way = inout(reg) way, options(nomem, nostack));
        }
        self.at(way as u32)
    }
}
