//! A small table in the model's memory: [`limiter_common::table`] over a few words.

use limiter_common::{
    arithmetic::{
        bucket::{TICK_SHIFT, ticks},
        quota::Quota,
    },
    table::{
        OVERFLOW_WIDTH, Overflow, SETS_OF_PAIR, SETS_OF_SOURCE, Seed, WAYS,
        entry::{
            ADDRESS, COUNTER_SHIFT, OVER, PASSED, Shared, TAT, epoch_in, is_taken, with_epoch,
        },
        key::{IPV4, IPV6, SourceKey, ipv4_words},
        word::Word,
    },
};

/// Words of an entry.
pub const WORDS: usize = 4;
const SET: usize = WAYS as usize * WORDS;
/// Destination port of the IPv4 packets.
const PORT: u32 = 53;

/// Start time in nanoseconds.
pub const START: u64 = 100_000_000_000;
/// Cost of a packet, in nanoseconds.
pub const COST: u64 = 1_000;
/// Packets in a full bucket.
pub const BURST: u64 = 2;
/// Ticks that each change of the quota adds to a TAT.
pub const CHANGE: u64 = 3;

/// The TAT of a bucket that became full one packet's cost before the start.
pub const FULL_BUCKET: u64 = ticks(START - COST);

/// The quota of all slots except the last, whose limit was removed.
pub const QUOTA: Quota = Quota {
    tau: (BURST * COST) << TICK_SHIFT,
    cost: COST << TICK_SHIFT,
    cost_shift: 0,
    flags: 0,
    window: limiter_common::pod::Pod::ZEROS,
    hold: 0,
    pace: 0,
};
/// Slot of a removed limit.
pub const GONE: u32 = 63;

/// Slot of the sources that only fill the table.
const FILLER: u32 = 62;

/// A table of one set, of one pair of sets, and of two pairs.
pub const ONE_SET: World = World::of(1);
pub const TWO_SETS: World = World::of(2);
pub const FOUR_SETS: World = World::of(4);

/// Maximum number of sources in other sets that a set can count.
pub const COUNT_MAX: u64 = 15;

/// A table of a few sets.
#[derive(Clone, Copy)]
pub struct World {
    pub sets: u32,
    /// Number of each set's sources in sets that the table lacks.
    hidden: [u64; 4],
    /// True if held entries are counted too. Explorations are shorter without the count.
    pub is_counted: bool,
}

pub const SEED: Seed = Seed::KNOWN;

/// Sets of the complete table: as many as one source may be in, and one more pair. The model has only the first of
/// them.
pub const WHOLE: u32 = SETS_OF_SOURCE + SETS_OF_PAIR;

impl World {
    const fn of(sets: u32) -> Self {
        Self {
            sets,
            hidden: [0; 4],
            is_counted: false,
        }
    }

    /// Also counts the held entries.
    pub const fn counted(self) -> Self {
        Self {
            is_counted: true,
            ..self
        }
    }

    pub fn home(self, tag: &SourceKey) -> u32 {
        SEED.home(tag, WHOLE).set
    }

    /// True if `home` is the home set of the source, and the second pair follows the first in its probe sequence.
    fn is_at(self, tag: &SourceKey, home: u32) -> bool {
        let [own, _, next] = [0, 1, 2].map(|distance| SEED.home(tag, WHOLE).sets().nth(distance));
        let is_first_pair = home < SETS_OF_PAIR;
        own == Some(home)
            && (self.sets <= SETS_OF_PAIR || !is_first_pair || next == Some(home + SETS_OF_PAIR))
    }

    /// The distance of a set in the probe sequence of the source.
    fn distance_of(self, tag: &SourceKey, set: u32) -> u32 {
        (0..SETS_OF_SOURCE)
            .zip(SEED.home(tag, WHOLE).sets())
            .find_map(|(distance, probed)| (probed == set).then_some(distance))
            .expect("the set is in the probe sequence")
    }

    /// The `number`-th of these sources that has the home set `home`.
    fn nth(self, home: u32, number: usize, sources: impl Iterator<Item = SourceKey>) -> SourceKey {
        let mut at_home = sources.filter(|tag| self.is_at(tag, home));
        at_home.nth(number).expect("some source has this home set")
    }

    /// The `number`-th IPv4 source with the home set `home`, under the limit in `slot`.
    pub fn narrow_of(self, slot: u32, home: u32, number: usize) -> SourceKey {
        let tag = |address: u32| SourceKey::new(IPV4, ipv4_words(address), slot, PORT);
        self.nth(home, number, (1..).map(tag))
    }

    pub fn narrow(self, home: u32, number: usize) -> SourceKey {
        self.narrow_of(0, home, number)
    }

    /// The `number`-th key of one IPv6 network with the home set `home`: all have the same address, each another port.
    pub fn of_port(self, home: u32, number: usize) -> SourceKey {
        let tag = |port: u32| SourceKey::new(IPV6, [0xb80d_0120, 0], 0, port);
        self.nth(home, number, (1..).map(tag))
    }

    /// The `number`-th IPv6 source with the home set `home`. The first half of the address is the same for all.
    pub fn wide(self, home: u32, number: usize) -> SourceKey {
        let tag = |rest: u64| SourceKey::new(IPV6, [0xb80d_0120, rest], 0, 0);
        self.nth(home, number, (1..).map(tag))
    }

    /// The word with the counts of all sets.
    pub fn counts(self) -> usize {
        self.sets as usize * SET
    }

    pub fn lock(self, set: u32) -> usize {
        self.counts() + 1 + set as usize
    }

    /// A set's data about its sources in other sets.
    pub fn overflow(self, words: &[u64], set: u32) -> Overflow {
        Overflow::in_word(words[self.counts()], set * OVERFLOW_WIDTH)
    }

    fn count_overflow(self, words: &mut [u64], set: u32, distance: u32) {
        let one_more = self
            .overflow(words, set)
            .with_one_more(distance)
            .expect("room");
        let counts = self.counts();
        words[counts] = one_more.put_into(words[counts], set * OVERFLOW_WIDTH);
    }

    /// Counts sources of the set as if they were in missing sets nearby.
    pub fn hide(&mut self, words: &mut [u64], set: u32, sources: u64) {
        self.hidden[set as usize] += sources;
        for _ in 0..sources {
            self.count_overflow(words, set, 1);
        }
    }

    /// An empty table.
    pub fn words(self) -> Vec<u64> {
        vec![0; self.held() + usize::from(self.is_counted)]
    }

    /// The word that counts the held entries.
    pub fn held(self) -> usize {
        self.lock(self.sets)
    }

    /// Puts a source into an entry.
    pub fn put(
        self,
        words: &mut [u64],
        set: u32,
        way: u32,
        tag: &SourceKey,
        word: u64,
        packets: u64,
    ) {
        let first = place(set, way);
        words[first + ADDRESS] = tag.first;
        words[first + PASSED] = u64::from(tag.port()) | packets << COUNTER_SHIFT;
        words[first + OVER] = with_epoch(tag.limit(), 0);
        words[first + TAT] = word;
        if self.is_counted {
            words[self.held()] += u64::from(tag.entries());
        }
        if tag.is_wide() {
            words[first + WORDS + ADDRESS] = tag.rest;
            words[first + WORDS + TAT] = limiter_common::arithmetic::bucket::REST;
        }
        let home = self.home(tag);
        if home != set {
            self.count_overflow(words, home, self.distance_of(tag, set));
        }
    }

    /// Fills the free entries with sources that keep them.
    pub fn fill(self, words: &mut [u64]) {
        let mut number = 0;
        for set in 0..self.sets {
            for way in 0..WAYS {
                if words[place(set, way) + TAT] == 0 {
                    number += 1;
                    let tag = self.narrow_of(FILLER, set, number);
                    self.put(words, set, way, &tag, ticks(2 * START), 2);
                }
            }
        }
    }

    /// All entries, each with the numbers of its set and way.
    fn entries(self, words: &[u64]) -> impl Iterator<Item = (u32, u32, Seen<'_>)> + Clone {
        let both = move |number: u32| (number / WAYS, number % WAYS);
        (0..self.sets * WAYS).map(both).map(move |(set, way)| {
            (
                set,
                way,
                Seen {
                    words,
                    first: place(set, way),
                },
            )
        })
    }

    /// The TATs of the source's buckets, including entries that a CPU is working on.
    pub fn buckets(self, words: &[u64], tag: &SourceKey) -> Vec<u64> {
        self.entries(words)
            .filter(|(_, way, entry)| {
                (!tag.is_wide() || way % 2 == 0) && is_taken(entry.load(TAT)) && entry.is_of(tag)
            })
            .map(|(_, _, entry)| entry.load(TAT))
            .collect()
    }

    /// The epoch of the source's bucket.
    pub fn epoch(self, words: &[u64], tag: &SourceKey) -> Option<u32> {
        self.entries(words)
            .find(|(_, _, entry)| is_taken(entry.load(TAT)) && entry.is_of(tag))
            .map(|(_, _, entry)| epoch_in(entry.load(OVER), 0))
    }

    /// Number of sources.
    pub fn sources(self, words: &[u64]) -> usize {
        self.entries(words)
            .filter(|(_, _, entry)| limiter_common::arithmetic::bucket::is_time(entry.load(TAT)))
            .count()
    }

    pub fn is_locked(self, words: &[u64], set: u32) -> bool {
        words[self.lock(set)] != 0
    }

    /// Checks the rules that hold at every moment.
    pub fn always(self, words: &[u64]) -> Result<(), String> {
        use limiter_common::arithmetic::bucket::is_time;
        let mut there = self.hidden;
        // Includes entries that a CPU is working on, as long as they have a key.
        for (set, _, entry) in self.entries(words) {
            let word = entry.load(TAT);
            // A cleared entry that a CPU has just taken still has its former key.
            if !is_taken(word) || self.is_counted && !is_time(word) {
                continue;
            }
            let tag = entry.key();
            let home = self.home(&tag);
            if home == set || home >= self.sets {
                continue;
            }
            there[home as usize] += 1;
            let (counted, there) = (self.overflow(words, home), there[home as usize]);
            if counted.count() < there || !counted.reaches(self.distance_of(&tag, set)) {
                return Err(format!(
                    "set {home} counts {counted:x?}, and {there} are elsewhere, one in {set}"
                ));
            }
        }
        let bits = self.sets * OVERFLOW_WIDTH;
        if words[self.counts()] >> bits != 0 {
            return Err("a count of a missing set is not 0".into());
        }
        let live = self
            .entries(words)
            .filter(|(_, _, entry)| is_time(entry.load(TAT)));
        let tags: Vec<SourceKey> = live.map(|(_, _, entry)| entry.key()).collect();
        for (number, tag) in tags.iter().enumerate() {
            if tags[..number].contains(tag) {
                return Err(format!("two buckets of {tag:x?}"));
            }
        }
        Ok(())
    }

    /// Checks the rules that hold when no CPU is working: no step is left half done, and the counts are exact.
    pub fn at_rest(self, words: &[u64]) -> Result<(), String> {
        use limiter_common::arithmetic::bucket::{BUSY, FREE, REST};
        for (set, way, entry) in self.entries(words) {
            let word = entry.load(TAT);
            if word == BUSY {
                return Err(format!("set {set} way {way} is left busy"));
            }
            let before = Seen {
                words,
                first: place(set, way & !1),
            };
            let is_second = way % 2 == 1 && before.load(TAT) != FREE && before.key().is_wide();
            if (word == REST) != is_second {
                return Err(format!(
                    "set {set} way {way}: a second half and its first do not go together"
                ));
            }
        }
        let held = self.entries(words);
        let held = held.filter(|(_, _, entry)| entry.load(TAT) != FREE).count() as u64;
        if self.is_counted && words[self.held()] != held {
            let counted = words[self.held()].cast_signed();
            return Err(format!(
                "{counted} entries are counted, and {held} are held"
            ));
        }
        for home in 0..self.sets {
            let elsewhere = self.entries(words).filter(|(set, _, entry)| {
                let is_owned = ![FREE, REST].contains(&entry.load(TAT));
                is_owned && *set != home && self.home(&entry.key()) == home
            });
            let there = elsewhere.count() as u64 + self.hidden[home as usize];
            let counted = self.overflow(words, home).count();
            if counted != there {
                return Err(format!(
                    "set {home} counts {counted}, and {there} are elsewhere"
                ));
            }
            if self.is_locked(words, home) {
                return Err(format!("set {home} is left locked"));
            }
        }
        Ok(())
    }

    /// The number of the key in the entry that contains the word.
    pub fn owner(self, words: &[u64], index: usize) -> u64 {
        if index < self.counts() {
            Self::number_of(
                &Seen {
                    words,
                    first: index / WORDS * WORDS,
                }
                .key(),
            )
        } else {
            0
        }
    }

    /// A number for the key, below 2^63.
    pub fn number_of(tag: &SourceKey) -> u64 {
        let SourceKey { first, rest, scope } = *tag;
        let mixed = first.wrapping_mul(SEED.0[1]) ^ rest.wrapping_mul(SEED.0[2]);
        (mixed ^ scope).wrapping_mul(SEED.0[3]) >> 1
    }
}

pub fn place(set: u32, way: u32) -> usize {
    set as usize * SET + way as usize * WORDS
}

/// A read-only view of an entry.
#[derive(Clone, Copy)]
struct Seen<'a> {
    words: &'a [u64],
    first: usize,
}

/// A word as it was read.
#[derive(Clone, Copy)]
struct SeenWord(u64);

impl Word for SeenWord {
    fn load(self) -> u64 {
        self.0
    }
    fn swap(self, _: u64, _: u64) -> bool {
        unreachable!("the view is read-only")
    }
    fn store(self, _: u64) {
        unreachable!("the view is read-only")
    }
    fn add(self, _: u64) {
        unreachable!("the view is read-only")
    }
}

impl Shared for Seen<'_> {
    type Word = SeenWord;

    fn word(self, index: usize) -> SeenWord {
        SeenWord(self.words[self.first + index])
    }
    fn next(self) -> Self {
        Self {
            first: self.first | WORDS,
            ..self
        }
    }
}
