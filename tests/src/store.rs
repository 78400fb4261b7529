//! Reads the table of sources word by word: location of each source, and consistency.

use std::collections::{BTreeMap, HashSet};

use aya::maps::{Array, Map, MapData};
use limiter_common::{
    abi::{SETS_OF_WORD, Set, Table},
    arithmetic::bucket::{BUSY, FREE, REST, is_time},
    table::{
        OVERFLOW_WIDTH, Overflow, Seed, WAYS,
        entry::{ADDRESS, OVER, PASSED, TAT},
        key::SourceKey,
    },
};
use limiter_kernel::program::{object::Program, raw::Raw};

/// The maps of a table.
pub struct Store {
    sets: Array<MapData, Raw<Set>>,
    overflow: Array<MapData, u64>,
    locked: Array<MapData, u64>,
    /// The seed that selects a source's sets.
    pub seed: Seed,
}

/// A source and its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Number of the set.
    pub set: u32,
    /// Number of its entry in the set.
    pub way: u32,
    /// Its key.
    pub key: SourceKey,
    /// The TAT of its bucket.
    pub tat: u64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// The table of a program. The program keeps its maps.
    pub fn of(program: &mut Program) -> Self {
        let table: Array<_, Raw<Table>> = opened(program, "TABLE").try_into().unwrap();
        let Raw(Table { seed, .. }) = table.get(&0, 0).unwrap();
        Self {
            sets: opened(program, "SETS").try_into().unwrap(),
            overflow: opened(program, "OVERFLOW").try_into().unwrap(),
            locked: opened(program, "LOCKED").try_into().unwrap(),
            seed,
        }
    }

    /// Number of sets.
    pub fn sets(&self) -> u32 {
        self.sets.len()
    }

    /// A source's home set.
    pub fn home(&self, key: &SourceKey) -> u32 {
        self.seed.home(key, self.sets()).set
    }

    /// All sources with a bucket. Decodes the entries independently, from their documented layout.
    pub fn entries(&self) -> Vec<Placed> {
        let mut found = Vec::new();
        for set in 0..self.sets() {
            let Raw(Set { entries }) = self.sets.get(&set, 0).unwrap();
            for (way, entry) in (0..WAYS).zip(entries) {
                let [address, tat, passed, over] =
                    [ADDRESS, TAT, PASSED, OVER].map(|word| entry.words[word]);
                if !is_time(tat) {
                    assert!(
                        tat != REST || way % 2 == 1,
                        "set {set}, entry {way}: second half of a wide key without the first"
                    );
                    continue;
                }
                let mut key = SourceKey {
                    first: address,
                    rest: 0,
                    scope: (passed & 0xffff) | (over & 0xff) << 16,
                };
                if key.is_wide() {
                    let rest = entries[way as usize | 1];
                    assert_eq!(
                        (way % 2, rest.words[TAT]),
                        (0, REST),
                        "set {set}, entry {way}: a wide key has two entries"
                    );
                    key.rest = rest.words[ADDRESS];
                }
                found.push(Placed { set, way, key, tat });
            }
        }
        found
    }

    /// Sets the TAT of an existing source's bucket, as other hosts charge it, while no program runs.
    pub fn set_word(&mut self, key: &SourceKey, word: u64) {
        let entries = self.entries();
        let placed = entries.iter().find(|placed| placed.key == *key).unwrap();
        let Raw(mut set) = self.sets.get(&placed.set, 0).unwrap();
        set.entries[placed.way as usize].words[TAT] = word;
        self.sets.set(placed.set, Raw(set), 0).unwrap();
    }

    /// Number of sources of each set that in overflow sets, without zeros.
    pub fn overflow(&self) -> BTreeMap<u32, u64> {
        let counts = (0..self.sets()).map(|set| (set, self.overflow_of(set).count()));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    fn overflow_of(&self, set: u32) -> Overflow {
        let word = self.overflow.get(&(set / SETS_OF_WORD), 0).unwrap();
        Overflow::in_word(word, OVERFLOW_WIDTH * (set % SETS_OF_WORD))
    }

    /// Panics unless the table is consistent. Returns the sources. No program may run meanwhile.
    ///
    /// In a consistent table, each source has one entry, in one of its sets. Each set counts its sources in overflow
    /// sets. No set is locked, and no step is half done.
    pub fn expect_sound(&self) -> Vec<Placed> {
        let entries = self.entries();
        let (mut keys, mut away) = (HashSet::new(), BTreeMap::new());
        let mut room = 0;
        for Placed { set, way, key, .. } in &entries {
            assert!(keys.insert(*key), "two buckets of {key:?}");
            let home = self.seed.home(key, self.sets());
            let overflow = self.overflow_of(home.set);
            let looked_at = (0..).take_while(|place| overflow.reaches(*place));
            let mut looked_at = home.sets().zip(looked_at);
            assert!(
                looked_at.any(|(of_source, _)| of_source == *set),
                "{key:?} in set {set}, entry {way}, which is not looked at: {overflow:?}"
            );
            if home.set != *set {
                *away.entry(home.set).or_insert(0) += 1;
            }
            room += if key.is_wide() { 2 } else { 1 };
        }
        assert!(room <= self.sets() * WAYS, "more sources than entries");
        assert_eq!(self.overflow(), away, "sources in other sets");
        self.expect_at_rest();
        entries
    }

    fn expect_at_rest(&self) {
        let locked = self
            .locked
            .iter()
            .filter(|word| *word.as_ref().unwrap() != 0);
        assert_eq!(locked.count(), 0, "no set is locked");
        for set in 0..self.sets() {
            let Raw(Set { entries }) = self.sets.get(&set, 0).unwrap();
            let words = entries.map(|entry| entry.words[TAT]);
            for (way, word) in words.into_iter().enumerate() {
                assert_ne!(word, BUSY, "set {set}: {words:?}");
                let halves = word == REST;
                assert!(
                    !halves || words[way & !1] != FREE,
                    "set {set}: half a key without an owner: {words:?}"
                );
            }
        }
    }
}

/// Opens a program's map again.
fn opened(program: &mut Program, name: &'static str) -> Map {
    let (Map::Array(map) | Map::PerCpuArray(map)) = program.map_mut(name).unwrap() else {
        panic!("{name} is an array");
    };
    let id = map.info().unwrap().id();
    Map::Array(MapData::from_id(id).unwrap())
}
