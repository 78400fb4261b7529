//! The full path searches each bucket once per packet, and does not charge a source that takes over an entry.

use std::cell::Cell;

use limiter_common::{
    abi::rules::Limit,
    arithmetic::bucket,
    policy::{Constants, Engine, Evaluation, full::evaluate, verdict::Reason},
    table::{
        Added,
        entry::{ADDRESS, OVER, PASSED, Protocol, Shared, TAT, counter, with_epoch},
        key::{Address, KeyMask, Tag},
    },
};

/// Ticks of a token, and of a bucket of ten tokens.
const COST: u64 = 1_000;
const TAU: u64 = 10 * COST;
const NOW: u64 = 1_000_000;

/// An engine with two limits over a row of entries.
struct Row {
    limits: [Limit; 2],
    entries: Vec<[Cell<u64>; 4]>,
    /// Number of searches for an entry.
    searches: Cell<u32>,
}

#[derive(Clone, Copy)]
struct Entry<'a>(&'a [Cell<u64>; 4]);

impl Shared for Entry<'_> {
    fn load(self, word: usize) -> u64 {
        self.0[word].get()
    }

    fn swap(self, word: usize, expected: u64, new: u64) -> bool {
        let is_expected = self.load(word) == expected;
        if is_expected {
            self.store(word, new);
        }
        is_expected
    }

    fn store(self, word: usize, value: u64) {
        self.0[word].set(value);
    }

    fn add(self, word: usize, amount: u64) {
        self.store(word, self.load(word).wrapping_add(amount));
    }

    fn next(self) -> Self {
        self
    }
}

impl<'a> Constants for &'a Row {
    type Limit = &'a Limit;

    fn limit(&self, index: u32) -> Option<&'a Limit> {
        self.limits.get(index as usize)
    }

    fn limits_length(&self) -> u32 {
        2
    }

    fn index_of(&self, slot: u32) -> Option<u32> {
        Some(slot)
    }

    fn shadow(&self) -> bool {
        false
    }

    fn malformed_passes(&self) -> bool {
        false
    }

    fn control(&self) -> bool {
        false
    }

    fn transport(&self) -> bool {
        false
    }

    fn room(&self) -> u32 {
        0
    }

    fn established(&self) -> bool {
        true
    }
}

impl<'a> Engine for &'a Row {
    type Entry = Entry<'a>;
    type Found = Option<Entry<'a>>;

    fn candidates(&self, _: &Evaluation) -> u64 {
        0b11
    }

    fn uncertain(&self) -> u64 {
        0
    }

    fn now(&self) -> u64 {
        NOW
    }

    fn lists(&self, _: &Evaluation) -> u32 {
        0
    }

    fn entry_number(&self, tag: &Tag) -> u32 {
        self.searches.set(self.searches.get() + 1);
        let mut places = 1..;
        let mut entries = self.entries.iter().zip(places.by_ref());
        entries
            .find(|(entry, _)| Entry(entry).is_of(tag))
            .map_or(0, |(_, place)| place)
    }

    fn entry(&self, place: u32) -> Option<Entry<'a>> {
        let index = place.checked_sub(1)?;
        self.entries.get(index as usize).map(Entry)
    }

    fn admits(&self, _: &Tag, _: u64, _: bool) -> bool {
        false
    }

    fn insert(&self, _: &Tag, _: u64, _: u32, _: u64) -> Added {
        Added::NoRoom
    }

    fn count_limit(&self, _: u32, _: Reason, _: u64) {}

    fn uncount_limit(&self, _: u32, _: u64) {}
}

fn address(last: u8) -> Address {
    Address::ipv4(u32::from_ne_bytes([192, 0, 2, last]))
}

/// The key of a source under the limit in `slot`.
fn tag(last: u8, slot: u32) -> Tag {
    KeyMask::prefixes(32, 64).key(slot, &address(last), 0).tag()
}

/// Two limits, and full buckets of these keys.
fn row(tags: &[Tag]) -> Row {
    let limit = |slot| {
        let mut limit = Limit::NONE;
        limit.mask = KeyMask::prefixes(32, 64);
        (limit.quota.tau, limit.quota.cost) = (TAU, COST);
        limit.slot = slot;
        limit
    };
    Row {
        limits: [limit(0), limit(1)],
        entries: tags.iter().map(entry_of).collect(),
        searches: Cell::new(0),
    }
}

fn entry_of(tag: &Tag) -> [Cell<u64>; 4] {
    let words: [Cell<u64>; 4] = Default::default();
    words[ADDRESS].set(tag.address);
    words[TAT].set(bucket::ticks(NOW));
    words[PASSED].set(tag.port());
    words[OVER].set(with_epoch(tag.limit(), 0));
    words
}

fn offer(row: &Row, last: u8, meanwhile: impl Fn()) -> Reason {
    let mut evaluation = Evaluation::NONE;
    evaluation.begin(100);
    evaluation.info.source = address(last);
    // The policy looks up sockets after it has checked the buckets and before it charges them.
    let has_connection = |_| {
        meanwhile();
        false
    };
    evaluate(&row, &mut evaluation, has_connection)
}

fn passed(row: &Row, index: usize) -> u64 {
    counter(row.entries[index][PASSED].get())
}

#[test]
fn each_bucket_is_searched_once_per_packet() {
    let row = row(&[tag(1, 0), tag(1, 1)]);
    assert_eq!(offer(&row, 1, || ()), Reason::Admitted);
    assert_eq!(row.searches.get(), 2);
    assert_eq!([passed(&row, 0), passed(&row, 1)], [1, 1]);
    for entry in &row.entries {
        assert_eq!(entry[TAT].get(), bucket::ticks(NOW) + COST);
    }
}

#[test]
fn entry_taken_by_another_source_is_not_charged() {
    let row = row(&[tag(1, 0), tag(1, 1), tag(2, 0)]);
    let change_hands = || {
        for word in 0..4 {
            row.entries[0][word].swap(&row.entries[2][word]);
        }
    };
    assert_eq!(offer(&row, 1, change_hands), Reason::Admitted);
    // The source's bucket is now in the third entry, and the other source's bucket in the first.
    assert_eq!(
        [passed(&row, 0), passed(&row, 1), passed(&row, 2)],
        [0, 1, 1]
    );
    assert_eq!(row.entries[0][TAT].get(), bucket::ticks(NOW));
    assert_eq!(row.entries[2][TAT].get(), bucket::ticks(NOW) + COST);
}
