//! The table of sources, mapped into this process: read and changed without a system call for each
//! source, while the program works on it.
//!
//! What is changed here is one word by one compare-and-swap each: a command that is killed leaves no
//! entry half changed.

use std::{
    num::NonZeroUsize,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use aya::maps::MapData;
use limiter_common::{
    bucket::{self, FORGOTTEN},
    entry::{self, BEHIND_MAX, KEY, OVER, PASSED, Protocol, Shared, TAT, epoch_in, with_epoch},
    key::SourceKey,
    layout::{Figures, Set, Source},
    table::{Seed, WAYS},
};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::{
    error::{Error, Result},
    maps::read_failed,
};

/// A source and what the table keeps of it.
pub type Entry = (SourceKey, Source);

/// How often an entry is read that changes meanwhile.
const TRIES: u32 = 64;

/// Changes of terms after which entries that have missed them are marked.
const AGE: u32 = BEHIND_MAX / 4;

/// Memory of a map.
#[derive(Debug)]
struct Mapping {
    start: NonNull<AtomicU64>,
    bytes: NonZeroUsize,
}

// SAFETY: the memory is the kernel's, and reached by atomic operations alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `of`, and nothing that is borrowed from it is left.
        let _ = unsafe { munmap(self.start.cast(), self.bytes.get()) };
    }
}

impl Mapping {
    fn of(map: &MapData, bytes: usize) -> Result<Self> {
        let failed =
            |error: nix::Error| Error::system("mapping the table of sources", error.into());
        let bytes = NonZeroUsize::new(bytes).ok_or_else(|| failed(nix::Error::EINVAL))?;
        // SAFETY: a new mapping, wherever the kernel wants it.
        let start = unsafe {
            mmap(
                None,
                bytes,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                map.fd(),
                0,
            )
        };
        Ok(Self {
            start: start.map_err(failed)?.cast(),
            bytes,
        })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words are mapped for as long as `self` lives, and aligned to a page.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr(), self.bytes.get() / size_of::<u64>())
        }
    }
}

/// The sets of a table.
#[derive(Debug)]
pub struct Sets {
    sets: Mapping,
    figures: Mapping,
    length: u32,
    seed: Seed,
}

impl Sets {
    /// Maps the sets, and as many sets of figures.
    pub fn open(sets: &MapData, figures: &MapData, seed: Seed) -> Result<Self> {
        let length = sets.info().map_err(read_failed)?.max_entries();
        Ok(Self {
            sets: Mapping::of(sets, length as usize * size_of::<Set>())?,
            figures: Mapping::of(figures, length as usize * size_of::<Figures>())?,
            length,
            seed,
        })
    }

    /// Sources that there is room for.
    pub fn capacity(&self) -> u64 {
        u64::from(self.length) * u64::from(WAYS)
    }

    fn entries(&self) -> impl Iterator<Item = Mapped<'_>> {
        (0..self.length).flat_map(|set| self.of_set(set))
    }

    fn of_set(&self, set: u32) -> impl Iterator<Item = Mapped<'_>> {
        let (buckets, figures) = (self.sets.words(), self.figures.words());
        // A set is two rows of so many words, in either map.
        let start = set as usize * 2 * WAYS as usize;
        (start..start + WAYS as usize).map(move |first| Mapped {
            buckets,
            figures,
            first,
        })
    }

    /// All sources.
    pub fn sources(&self) -> impl Iterator<Item = Entry> {
        self.entries().filter_map(Mapped::read)
    }

    fn find(&self, key: &SourceKey) -> Option<Mapped<'_>> {
        let tag = key.tag();
        self.seed
            .home(&tag, self.length)
            .sets()
            .flat_map(|set| self.of_set(set))
            .find(|entry| entry.read().is_some_and(|(found, _)| found == *key))
    }

    /// One source, where it is in the table.
    pub fn source(&self, key: &SourceKey) -> Option<Source> {
        Some(self.find(key)?.read()?.1)
    }

    /// Forgets a source. Returns whether it was there.
    pub fn forget(&self, key: &SourceKey) -> bool {
        self.find(key)
            .is_some_and(|entry| entry.forget(|found| found == key))
    }

    /// Forgets the sources that `which` is true of. Returns how many there were.
    pub fn forget_all(&self, which: impl Fn(&SourceKey) -> bool) -> u64 {
        self.entries()
            .map(|entry| u64::from(entry.forget(&which)))
            .sum()
    }

    /// Sets the figure of what was over the limits in these slots to 0.
    pub fn forget_refused(&self, slots: &[u32]) {
        for entry in self.entries() {
            let is_theirs = |(key, _): Entry| slots.contains(&key.slot());
            if entry.read().is_some_and(is_theirs) {
                entry.store(OVER, 0);
            }
        }
    }

    /// Entries of the limit in `slot` that have missed so many changes that their terms are no longer
    /// remembered are marked as of no earlier than that: what is kept of an epoch goes round.
    pub fn age(&self, slot: u32, epoch: u32) {
        if !epoch.is_multiple_of(AGE) {
            return;
        }
        for entry in self.entries() {
            let Some((key, source)) = entry.read() else {
                continue;
            };
            let behind = epoch.wrapping_sub(epoch_in(source.key, epoch));
            if key.slot() == slot && (AGE + 1..=BEHIND_MAX).contains(&behind) {
                // Where it fails, the program has just brought it to the present.
                entry.swap(
                    KEY,
                    source.key,
                    with_epoch(source.key, epoch.wrapping_sub(AGE)),
                );
            }
        }
    }
}

/// An entry of the table.
#[derive(Clone, Copy)]
struct Mapped<'a> {
    buckets: &'a [AtomicU64],
    figures: &'a [AtomicU64],
    /// Index of its first word, in both.
    first: usize,
}

impl<'a> Mapped<'a> {
    fn word(self, word: usize) -> &'a AtomicU64 {
        let second = self.first + WAYS as usize;
        match word {
            KEY => &self.buckets[self.first],
            TAT => &self.buckets[second],
            PASSED => &self.figures[self.first],
            _ => &self.figures[second],
        }
    }
}

impl Shared for Mapped<'_> {
    fn load(self, word: usize) -> u64 {
        self.word(word).load(Ordering::Acquire)
    }

    fn swap(self, word: usize, expected: u64, new: u64) -> bool {
        self.word(word)
            .compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    fn store(self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::Release);
    }

    fn add(self, word: usize, amount: u64) {
        self.word(word).fetch_add(amount, Ordering::SeqCst);
    }

    fn next(self) -> Self {
        Self {
            first: self.first + 1,
            ..self
        }
    }
}

impl Mapped<'_> {
    /// Whose it is, and what is in it: all of one moment, but for figures that grow meanwhile. Nothing where
    /// it is nobody's.
    fn read(self) -> Option<Entry> {
        for _ in 0..TRIES {
            let word = self.load(TAT);
            if !entry::is_taken(word) {
                return None;
            }
            let tag = self.tag();
            let source = Source {
                tat: word,
                key: self.load(KEY),
                passed: self.load(PASSED),
                refused: self.load(OVER),
            };
            if bucket::is_time(word) && self.load(TAT) == word {
                return Some((tag.key(), source));
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Forgets the source, if there is one and `which` is true of it. Returns whether it did.
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
}
