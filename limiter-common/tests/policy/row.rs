//! An engine whose table is a row of entries.

use std::cell::Cell;

use limiter_common::{
    abi::{Constants, rules::Limit},
    arithmetic::bucket,
    policy::{Direct, Environment, Evaluation, TimeBounds, verdict::Reason},
    table::{
        Added,
        entry::{ADDRESS, OVER, PASSED, Shared, TAT, with_epoch},
        key::{Address, KeyMask, SourceKey},
        nat64::Nat64,
    },
};

/// Ticks of a token, and of a bucket of ten tokens.
pub const COST: u64 = 1_000;
pub const TAU: u64 = 10 * COST;
pub const NOW: u64 = 1_000_000;
/// Nanoseconds between the bounds of the time.
pub const TICK: u64 = 20;

/// Acts of another CPU.
pub type Meanwhile<'a> = dyn Fn(&Row<'_>) + 'a;

/// An engine with two limits over a row of entries.
pub struct Row<'a> {
    pub constants: Box<Constants>,
    pub entries: Vec<[Cell<u64>; 4]>,
    /// Number of searches for an entry.
    pub searches: Cell<u32>,
    /// They come between the check of the buckets and the first charge.
    pub meanwhile: Cell<Option<&'a Meanwhile<'a>>>,
    /// The time, in nanoseconds.
    pub time: Cell<u64>,
    /// The scale of adaptive limits.
    pub scale: Cell<u64>,
    /// The last upper bound of the time, if it has bounds. A reading of the clock renews it.
    pub latest: Cell<Option<u64>>,
}

#[derive(Clone, Copy)]
pub struct RowEntry<'a>(&'a [Cell<u64>; 4]);

impl<'a> Shared for RowEntry<'a> {
    type Word = &'a Cell<u64>;

    fn word(self, index: usize) -> &'a Cell<u64> {
        &self.0[index]
    }

    fn next(self) -> Self {
        self
    }
}

impl Direct for &Row<'_> {}

impl<'a> Environment for &'a Row<'_> {
    type Entry = RowEntry<'a>;
    type Found = Option<RowEntry<'a>>;

    fn constants(&self) -> &Constants {
        &self.constants
    }

    fn now(&self) -> u64 {
        let now = self.time.get();
        self.latest.set(self.latest.get().map(|_| now + TICK));
        now
    }

    fn time_bounds(&self) -> Option<TimeBounds> {
        let latest = self.latest.get()?;
        let earliest = latest - TICK;
        Some(TimeBounds { earliest, latest })
    }

    fn lists(&self, _: &Evaluation) -> u32 {
        0
    }

    fn lists_of(&self, _: &Address) -> u32 {
        0
    }

    fn entry_number(&self, key: &SourceKey) -> u32 {
        self.searches.set(self.searches.get() + 1);
        let mut places = 1..;
        let mut entries = self.entries.iter().zip(places.by_ref());
        entries
            .find(|(entry, _)| RowEntry(entry).is_of(key))
            .map_or(0, |(_, place)| place)
    }

    /// Charges begin with the entry that the check has found.
    fn entry(&self, place: u32) -> Option<RowEntry<'a>> {
        let index = place.checked_sub(1)?;
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile(self);
        }
        self.entries.get(index as usize).map(RowEntry)
    }

    fn likely(&self, key: &SourceKey) -> Option<RowEntry<'a>> {
        let index = self.entry_number(key).checked_sub(1)?;
        self.entries.get(index as usize).map(RowEntry)
    }

    fn number_of(&self, entry: RowEntry<'a>) -> u32 {
        let mut places = 1..;
        let mut entries = self.entries.iter().zip(places.by_ref());
        let found = entries.find(|(words, _)| std::ptr::eq(*words, entry.0));
        found.map_or(0, |(_, place)| place)
    }

    fn admits(&self, _: &SourceKey, _: u64, _: u32, _: bool) -> bool {
        false
    }

    fn was_refused(&self, _: &SourceKey) -> bool {
        false
    }

    fn insert(&self, _: &SourceKey, _: u64, _: u32, _: u64, _: bool) -> Added {
        Added::NoRoom
    }

    fn scale(&self, _: u32) -> u64 {
        self.scale.get()
    }

    fn count_limit(&self, _: u32, _: Reason, _: u64) {}

    fn uncount_limit(&self, _: u32, _: u64) {}
}

pub fn address(last: u8) -> Address {
    Address::ipv4(u32::from_ne_bytes([192, 0, 2, last]))
}

/// The key of a source under the limit in `slot`.
pub fn key(last: u8, slot: u32) -> SourceKey {
    KeyMask::prefixes(32, 64).key(slot, &address(last), 0, &Nat64::WELL_KNOWN)
}

/// Two limits, and full buckets of these keys.
pub fn row<'a>(keys: &[SourceKey]) -> Row<'a> {
    let limit = |slot| {
        let mut limit = Limit::NONE;
        limit.mask = KeyMask::prefixes(32, 64);
        (limit.quota.tau, limit.quota.cost) = (TAU, COST);
        limit.slot = slot;
        limit
    };
    let mut constants = Box::new(Constants::NONE);
    (constants.limits[0], constants.limits[1]) = (limit(0), limit(1));
    constants.limits_length = 2;
    let limits = constants.limits;
    constants.candidates.fill(&limits[..2]);
    Row {
        constants,
        entries: keys.iter().map(entry_of).collect(),
        searches: Cell::new(0),
        meanwhile: Cell::new(None),
        time: Cell::new(NOW),
        scale: Cell::new(0),
        latest: Cell::new(None),
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
