//! The policy searches each bucket once per packet, and stays right if another CPU acts between two of its steps.

use std::cell::Cell;

use limiter_common::{
    abi::{
        Config,
        rules::{Limit, NewSourceQuota},
    },
    arithmetic::bucket,
    policy::{
        Engine, Evaluation,
        full::evaluate,
        new_sources::{LOST, lease_once},
        verdict::Reason,
    },
    table::{
        Added,
        entry::{ADDRESS, OVER, PASSED, Shared, TAT, counter, with_epoch},
        key::{Address, KeyMask, SourceKey},
        word::Word,
    },
};

/// Ticks of a token, and of a bucket of ten tokens.
const COST: u64 = 1_000;
const TAU: u64 = 10 * COST;
const NOW: u64 = 1_000_000;

/// An engine with two limits over a row of entries.
struct Row<'a> {
    config: Box<Config>,
    entries: Vec<[Cell<u64>; 4]>,
    /// Number of searches for an entry.
    searches: Cell<u32>,
    /// What another CPU does between the check of the buckets and the first charge.
    meanwhile: Cell<Option<&'a dyn Fn(&Row<'_>)>>,
}

#[derive(Clone, Copy)]
struct Entry<'a>(&'a [Cell<u64>; 4]);

impl<'a> Shared for Entry<'a> {
    type Word = &'a Cell<u64>;

    fn word(self, index: usize) -> &'a Cell<u64> {
        &self.0[index]
    }

    fn next(self) -> Self {
        self
    }
}

impl<'a> Engine for &'a Row<'_> {
    type Entry = Entry<'a>;
    type Found = Option<Entry<'a>>;

    fn config(&self) -> &Config {
        &self.config
    }

    fn now(&self) -> u64 {
        NOW
    }

    fn lists(&self, _: &Evaluation) -> u32 {
        0
    }

    fn destination_lists(&self, _: &Evaluation) -> u32 {
        0
    }

    fn entry_number(&self, key: &SourceKey) -> u32 {
        self.searches.set(self.searches.get() + 1);
        let mut places = 1..;
        let mut entries = self.entries.iter().zip(places.by_ref());
        entries
            .find(|(entry, _)| Entry(entry).is_of(key))
            .map_or(0, |(_, place)| place)
    }

    /// Charges begin with the entry that the check has found.
    fn entry(&self, place: u32) -> Option<Entry<'a>> {
        let index = place.checked_sub(1)?;
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile(self);
        }
        self.entries.get(index as usize).map(Entry)
    }

    fn find(&self, key: &SourceKey) -> Option<Entry<'a>> {
        let index = self.entry_number(key).checked_sub(1)?;
        self.entries.get(index as usize).map(Entry)
    }

    fn number_of(&self, entry: Entry<'a>) -> u32 {
        let mut places = 1..;
        let mut entries = self.entries.iter().zip(places.by_ref());
        let found = entries.find(|(words, _)| std::ptr::eq(*words, entry.0));
        found.map_or(0, |(_, place)| place)
    }

    fn admits(&self, _: &SourceKey, _: u64, _: bool) -> bool {
        false
    }

    fn insert(&self, _: &SourceKey, _: u64, _: u32, _: u64) -> Added {
        Added::NoRoom
    }

    fn count_limit(&self, _: u32, _: Reason, _: u64) {}

    fn uncount_limit(&self, _: u32, _: u64) {}
}

fn address(last: u8) -> Address {
    Address::ipv4(u32::from_ne_bytes([192, 0, 2, last]))
}

/// The key of a source under the limit in `slot`.
fn key(last: u8, slot: u32) -> SourceKey {
    KeyMask::prefixes(32, 64).key(slot, &address(last), 0)
}

/// Two limits, and full buckets of these keys.
fn row<'a>(keys: &[SourceKey]) -> Row<'a> {
    let limit = |slot| {
        let mut limit = Limit::NONE;
        limit.mask = KeyMask::prefixes(32, 64);
        (limit.quota.tau, limit.quota.cost) = (TAU, COST);
        limit.slot = slot;
        limit
    };
    let mut config = Box::new(Config::NONE);
    (config.limits[0], config.limits[1]) = (limit(0), limit(1));
    config.limits_length = 2;
    let limits = config.limits;
    config.candidates.fill(&limits[..2]);
    Row {
        config,
        entries: keys.iter().map(entry_of).collect(),
        searches: Cell::new(0),
        meanwhile: Cell::new(None),
    }
}

fn entry_of(key: &SourceKey) -> [Cell<u64>; 4] {
    let words: [Cell<u64>; 4] = Default::default();
    words[ADDRESS].set(key.first);
    words[TAT].set(bucket::ticks(NOW));
    words[PASSED].set(key.port().into());
    words[OVER].set(with_epoch(key.limit(), 0));
    words
}

fn offer<'a>(row: &Row<'a>, last: u8, meanwhile: &'a dyn Fn(&Row<'_>)) -> Reason {
    row.meanwhile.set(Some(meanwhile));
    let mut evaluation = Evaluation::NONE;
    evaluation.begin(100);
    evaluation.info.source = address(last);
    evaluate(&row, &mut evaluation, |_| false)
}

fn passed(row: &Row<'_>, index: usize) -> u64 {
    counter(row.entries[index][PASSED].get())
}

#[test]
fn each_bucket_is_searched_once_per_packet() {
    let row = row(&[key(1, 0), key(1, 1)]);
    assert_eq!(offer(&row, 1, &|_| ()), Reason::Admitted);
    assert_eq!(row.searches.get(), 2);
    assert_eq!([passed(&row, 0), passed(&row, 1)], [1, 1]);
    for entry in &row.entries {
        assert_eq!(entry[TAT].get(), bucket::ticks(NOW) + COST);
    }
}

#[test]
fn entry_taken_by_another_source_is_not_charged() {
    let row = row(&[key(1, 0), key(1, 1), key(2, 0)]);
    let change_hands = |row: &Row<'_>| {
        for word in 0..4 {
            row.entries[0][word].swap(&row.entries[2][word]);
        }
    };
    assert_eq!(offer(&row, 1, &change_hands), Reason::Admitted);
    // The source's bucket is now in the third entry, and the other source's bucket in the first.
    assert_eq!(
        [passed(&row, 0), passed(&row, 1), passed(&row, 2)],
        [0, 1, 1]
    );
    assert_eq!(row.entries[0][TAT].get(), bucket::ticks(NOW));
    assert_eq!(row.entries[2][TAT].get(), bucket::ticks(NOW) + COST);
}

#[test]
fn packet_that_loses_the_last_token_to_another_cpu_is_charged_to_no_limit() {
    let row = row(&[key(1, 0), key(1, 1)]);
    let take_all = |row: &Row<'_>| row.entries[1][TAT].set(bucket::ticks(NOW) + TAU);
    assert_eq!(offer(&row, 1, &take_all), Reason::Limit);
    assert_eq!([passed(&row, 0), passed(&row, 1)], [0, 0]);
    assert_eq!(row.entries[0][TAT].get(), bucket::ticks(NOW));
}

/// A word that another CPU replaces with `other`, if any, right after it is read.
#[derive(Clone, Copy)]
struct Contested<'a> {
    word: &'a Cell<u64>,
    other: &'a Cell<Option<u64>>,
}

impl Word for Contested<'_> {
    fn load(self) -> u64 {
        let read = self.word.get();
        self.word.set(self.other.take().unwrap_or(read));
        read
    }
    fn swap(self, expected: u64, new: u64) -> bool {
        Word::swap(self.word, expected, new)
    }
    fn store(self, value: u64) {
        self.word.set(value);
    }
    fn add(self, amount: u64) {
        Word::add(self.word, amount);
    }
}

#[test]
fn tokens_that_another_cpu_leases_are_not_leased_again() {
    const LEASE: u64 = 4;
    let limit = NewSourceQuota {
        tau: TAU,
        cost: COST,
        lease: LEASE,
        own_tau: 0,
        own_cost: 0,
    };
    let leased = bucket::ticks(NOW) + LEASE * COST;
    let (word, other) = (Cell::new(bucket::ticks(NOW)), Cell::new(Some(leased)));
    let common = Contested {
        word: &word,
        other: &other,
    };
    let lease = || lease_once(&limit, common, common, NOW, || NOW);
    assert_eq!([lease(), lease()], [LOST, LEASE]);
    assert_eq!(word.get(), leased + LEASE * COST);
}
