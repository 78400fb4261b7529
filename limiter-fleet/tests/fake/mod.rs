//! A table in memory, with one shared limit.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use limiter_common::table::{
    key::{Address, KeyMask, SLOTS, SourceKey},
    nat64::Nat64,
};
use limiter_fleet::{
    conflicts::Held,
    host::{About, Limit, Sighting, Table},
    refill::{Reading, charged},
    shared_quota::Quota,
};

/// One millisecond, in ticks.
pub const MS: u64 = 1_000_000 << 8;

/// The key of a source.
pub fn key(source: u32) -> SourceKey {
    KeyMask::prefixes(32, 64).key(0, &Address::ipv4(source), 0, &Nat64::WELL_KNOWN)
}

/// The shared limit.
pub fn limit(quota: Quota) -> Arc<Limit> {
    let held = Held::default();
    Arc::new(Limit { quota, held })
}

/// A source's bucket in an entry.
#[derive(Clone, Copy)]
pub struct Bucket {
    pub source: u32,
    pub tat: u64,
    /// Packets charged since the source has had the entry.
    pub admitted: u64,
}

/// The table. Each entry has a bucket, or none.
pub struct Fake {
    pub about: About,
    pub buckets: RefCell<Vec<Option<Bucket>>>,
    /// Changes the configuration: no bucket can be read.
    pub is_changed: bool,
    /// Number of readings of single entries.
    pub reads: Cell<u32>,
    /// Ticks that the member wanted to charge.
    pub wanted: Cell<u64>,
}

impl Fake {
    pub fn new(quota: Quota, entries: usize) -> Self {
        let mut limits = [const { None }; SLOTS as usize];
        limits[0] = Some(limit(quota));
        let about = About {
            interface: "eth0".to_owned(),
            index: 1,
            fleet: "edge".to_owned(),
            lists: [].into(),
            table: 1,
            program: 1,
            entries,
            limits,
        };
        Self {
            about,
            buckets: RefCell::new(vec![None; entries]),
            is_changed: false,
            reads: Cell::new(0),
            wanted: Cell::new(0),
        }
    }

    fn sighting(&self, bucket: &Bucket, now: u64) -> Option<Sighting> {
        let &Bucket { tat, admitted, .. } = bucket;
        let reading = Reading { tat, epoch: 0, now };
        (!self.is_changed).then_some(Sighting { reading, admitted })
    }
}

impl Table for Fake {
    fn about(&self) -> &About {
        &self.about
    }

    fn scan(&self, now: u64, mut each: impl FnMut(usize, &SourceKey, Option<Sighting>)) {
        for (number, bucket) in self.buckets.borrow().iter().enumerate() {
            if let Some(bucket) = bucket {
                each(number, &key(bucket.source), self.sighting(bucket, now));
            }
        }
    }

    fn read(&self, number: usize, source: &SourceKey, now: u64) -> Option<Sighting> {
        self.reads.set(self.reads.get() + 1);
        let bucket = self.buckets.borrow()[number]?;
        assert_eq!(key(bucket.source), *source);
        self.sighting(&bucket, now)
    }

    fn charge(&self, number: usize, _: &SourceKey, now: u64, ticks: u64, most: u64) -> u64 {
        self.wanted.set(self.wanted.get() + ticks);
        let mut buckets = self.buckets.borrow_mut();
        let bucket = buckets[number].as_mut().expect("a bucket");
        let Some((tat, added)) = charged(bucket.tat, now, ticks, most) else {
            return 0;
        };
        bucket.tat = tat;
        added
    }
}
