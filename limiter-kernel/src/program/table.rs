//! The table of sources, mapped into this process. It is read and changed without a system call for each source,
//! while the program works on it.
//!
//! Each change is one compare-and-swap of one word: a command that is killed leaves no entry half changed.

use std::{iter, sync::atomic::AtomicU64};

use aya::maps::MapData;
use limiter_common::{
    abi::{Set, Source},
    arithmetic::bucket::{self, FORGOTTEN},
    table::{
        Seed, WAYS,
        entry::{
            self, BEHIND_MAX, OVER, PASSED, Shared, TAT, counter, epoch_in, slot_in, with_epoch,
            without_counter,
        },
        key::{SLOTS, SourceKey},
    },
};

use crate::{
    error::{Failed, Result},
    sys::words::Words,
};

/// A source, and its state and counters in the table.
pub type Entry = (SourceKey, Source);

/// Words of an entry.
const WORDS: usize = size_of::<entry::Entry>() / size_of::<u64>();

/// Attempts to read an entry that changes meanwhile.
const TRIES: u32 = 64;

/// Changes of a limit's quota between two markings of entries that have missed them.
const AGE: u32 = BEHIND_MAX / 4;

/// The change of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// The bucket stays as it is.
    Nothing,
    /// The bucket has an earlier quota, and this is its TAT under the present one.
    Convert(u64),
    /// The bucket's new TAT.
    To(u64),
}

/// The sets of a table.
#[derive(Debug)]
pub struct Sets {
    words: Words,
    /// The number of sets.
    pub number: u32,
    /// The secret that places keys in sets and hashes IPv6 addresses.
    pub seed: Seed,
    /// Id of the map. No other table on this machine has it.
    pub id: u32,
}

impl Sets {
    /// Maps the sets.
    pub fn open(map: &MapData, seed: Seed) -> Result<Self> {
        let info = map.info()?;
        let (number, id) = (info.max_entries(), info.id());
        let words = Words::map(map, number as usize * size_of::<Set>());
        let words = words.failed("mapping the table of sources")?;
        Ok(Self {
            words,
            number,
            seed,
            id,
        })
    }

    /// The number of sources that the table has room for.
    pub fn capacity(&self) -> u64 {
        u64::from(self.number) * u64::from(WAYS)
    }

    /// The entries that are not free.
    fn entries(&self) -> impl Iterator<Item = Mapped<'_>> {
        let words: &[AtomicU64] = &self.words;
        let next = |first| entry::next_used(words, first).map(|first| Mapped { words, first });
        iter::successors(next(0), move |entry| next(entry.first + WORDS))
    }

    fn entry(&self, number: usize) -> Option<Mapped<'_>> {
        let first = number.checked_mul(WORDS)?;
        let words = &self.words;
        (first < words.len()).then_some(Mapped { words, first })
    }

    /// All sources. If the table changes meanwhile, each entry is as it was at some moment.
    pub fn sources(&self) -> impl Iterator<Item = Entry> {
        self.entries().filter_map(Mapped::read)
    }

    /// The number of entries that the limit in each slot holds.
    pub fn held(&self) -> [u64; SLOTS as usize] {
        let mut held = [0; SLOTS as usize];
        for entry in self.entries() {
            // A forgotten source counts until another one takes its entry.
            let key = match entry.load(TAT) {
                FORGOTTEN => Some(entry.key()),
                _ => entry.read().map(|(key, _)| key),
            };
            if let Some(key) = key
                && let Some(held) = held.get_mut(key.slot() as usize)
            {
                *held += u64::from(key.entries());
            }
        }
        held
    }

    /// Calls `read` for each source, with the number of its entry, which is below [`Self::capacity`].
    pub fn scan(&self, mut read: impl FnMut(usize, &SourceKey, &Source)) {
        for entry in self.entries() {
            if let Some((key, source)) = entry.read() {
                read(entry.first / WORDS, &key, &source);
            }
        }
    }

    fn find(&self, key: &SourceKey) -> Option<Mapped<'_>> {
        self.seed
            .home(key, self.number)
            .sets()
            .flat_map(|set| set * WAYS..(set + 1) * WAYS)
            .filter_map(|number| self.entry(number as usize))
            .find(|entry| entry.read().is_some_and(|(found, _)| found == *key))
    }

    /// One source, if it is in the table.
    pub fn source(&self, key: &SourceKey) -> Option<Source> {
        Some(self.find(key)?.read()?.1)
    }

    /// The source `key`, if the entry with this number is its own.
    pub fn source_in(&self, number: usize, key: &SourceKey) -> Option<Source> {
        let (found, source) = self.entry(number)?.read()?;
        (found == *key).then_some(source)
    }

    /// Changes the bucket in the entry with this number, if the entry is this source's. `change` returns the change,
    /// given the source's present state. Returns whether the bucket has changed.
    pub fn charge(
        &self,
        number: usize,
        key: &SourceKey,
        epoch: u32,
        mut change: impl FnMut(&Source) -> Charge,
    ) -> bool {
        for _ in 0..TRIES {
            let (Some(entry), Some(source)) = (self.entry(number), self.source_in(number, key))
            else {
                return false;
            };
            match change(&source) {
                Charge::Nothing => return false,
                // Later packets are charged to the bucket under the present quota.
                Charge::Convert(word) => {
                    entry.convert(key, source.over, source.tat, word, epoch);
                }
                Charge::To(word) if entry.charge(key, source.tat, word) => return true,
                Charge::To(_) => {}
            }
        }
        false
    }

    /// Forgets a source. Returns whether it was in the table.
    pub fn forget(&self, key: &SourceKey) -> bool {
        self.find(key)
            .is_some_and(|entry| entry.forget(|found| found == key))
    }

    /// Forgets the sources that `which` accepts. Returns their number.
    pub fn forget_where(&self, which: impl Fn(&SourceKey) -> bool) -> u64 {
        let forgotten = self.entries().filter(|entry| entry.forget(&which));
        forgotten.count() as u64
    }

    /// Sets the counter of refused packets to 0 for the limits in these slots.
    pub fn forget_refused(&self, slots: &[u32]) {
        for entry in self.entries() {
            entry.change_over(|over| {
                slots
                    .contains(&slot_in(over))
                    .then(|| without_counter(over))
            });
        }
    }

    /// Marks entries of the limit in `slot` that have missed more than `AGE` changes as `AGE` changes behind. Their
    /// quota is no longer remembered, and without the mark their epoch number would wrap.
    pub fn age(&self, slot: u32, epoch: u32) {
        // Before the first change, no entry can have missed one.
        if epoch == 0 || !epoch.is_multiple_of(AGE) {
            return;
        }
        for entry in self.entries() {
            entry.change_over(|over| {
                let behind = epoch.wrapping_sub(epoch_in(over, epoch));
                let is_old = slot_in(over) == slot && (AGE + 1..BEHIND_MAX).contains(&behind);
                is_old.then(|| with_epoch(over, epoch.wrapping_sub(AGE)))
            });
        }
    }
}

/// An entry of the table.
#[derive(Clone, Copy)]
struct Mapped<'a> {
    words: &'a [AtomicU64],
    /// Index of the entry's first word.
    first: usize,
}

impl<'a> Shared for Mapped<'a> {
    type Word = &'a AtomicU64;

    fn word(self, index: usize) -> &'a AtomicU64 {
        &self.words[self.first + index]
    }

    /// The other entry of the pair, even of the second one: in a torn table, the first half of a key may be in the
    /// last entry.
    fn next(self) -> Self {
        Self {
            first: self.first ^ WORDS,
            ..self
        }
    }
}

impl Mapped<'_> {
    /// The entry's key and state, all of one moment, apart from counters that grow meanwhile. `None` if no source has
    /// the entry.
    fn read(self) -> Option<Entry> {
        for _ in 0..TRIES {
            let word = self.load(TAT);
            if !entry::is_taken(word) {
                return None;
            }
            let key = self.key();
            let source = Source {
                tat: word,
                over: self.load(OVER),
                passed: counter(self.load(PASSED)),
                refused: counter(self.load(OVER)),
            };
            if bucket::is_time(word) && self.load(TAT) == word {
                return Some((key, source));
            }
            // The thread that changes the entry may have been stopped.
            std::thread::yield_now();
        }
        None
    }

    /// Forgets the source, if there is one and `which` accepts it. Returns whether it did.
    fn forget(self, which: impl Fn(&SourceKey) -> bool) -> bool {
        for _ in 0..TRIES {
            match self.read() {
                Some((key, source)) if which(&key) => {
                    if self.swap(TAT, source.tat, FORGOTTEN) {
                        return true;
                    }
                }
                _ => return false,
            }
        }
        false
    }

    /// Changes [`OVER`], if `change` returns a new value.
    fn change_over(self, change: impl Fn(u64) -> Option<u64>) {
        for _ in 0..TRIES {
            let over = self.load(OVER);
            match change(over) {
                Some(new) if !self.swap(OVER, over, new) => {}
                _ => return,
            }
        }
    }
}
