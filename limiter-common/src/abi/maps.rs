//! The values of the maps.

use crate::table::{DISPLACED_WIDTH, Seed, WAYS, entry::Entry};

/// A set of the table: one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Set {
    /// Its entries.
    pub entries: [Entry; WAYS as usize],
}

/// A source that has sent more than once keeps its entry for at least so long after its bucket is full
/// again, in nanoseconds: a flood of new sources, each of which sends once, must not drive out those
/// that the host has been serving.
pub const KEPT_FOR: u64 = 10_000_000_000;

/// Sets that share a word in which they count the sources that are in other sets.
pub const SETS_OF_WORD: u32 = u64::BITS / DISPLACED_WIDTH;

/// Locks for new sources. More than CPUs ever bring in at once; two sets may share one.
pub const LOCKS: u32 = 1024;

/// The one record of the table as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Table {
    /// The seed that assigns sources to sets. Programs have it among their constants.
    pub seed: Seed,
    /// The next set to search for entries that are not needed; wraps.
    pub hand: u64,
    /// Keeps the word below, which changes at every lease, off the cache line of others.
    pub apart: [u64; 11],
    /// The bucket of the new-source limit.
    pub new_sources: u64,
}

/// A limit's part of the table and of the new-source limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Share {
    /// Entries that its sources take; see [`crate::table::share::held`].
    pub held: u64,
    /// The limit's own bucket of new sources.
    pub new_sources: u64,
}

/// A CPU's lease of new sources for one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Lease {
    /// New sources that may still be taken in without asking the new-source limit.
    pub tokens: u64,
    /// New sources that are refused without asking it.
    pub dry: u64,
    /// `jiffies` at that refusal. `dry` is valid only while they are the same.
    pub jiffy: u64,
}

/// The value of one prefix in a list map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Listed {
    /// The lists that decide about sources of this prefix: its own lists, or otherwise those of the prefix around it.
    pub lists: u32,
    /// The lists that the prefix itself is on.
    pub own: u32,
    /// Packets that the deny list dropped; see [`crate::policy::denied`]. 0 of a prefix that it does not decide about.
    pub dropped: u64,
}

/// Metadata in front of a packet if the clock is [`CLOCK_PACKET`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stamp {
    /// In: the time, in nanoseconds.
    pub nanoseconds: u64,
    /// Out: the number of the [`crate::policy::verdict::Reason`].
    pub reason: u32,
    /// In: distance in nanoseconds from `nanoseconds` to the bounds that the program is given first. The decision must
    /// not depend on it.
    pub spread: u32,
    /// In: bytes of the frame, of which the packet may be only the beginning; 0: the packet's length.
    pub length: u64,
}

/// A CPU's own reading of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Cpu {
    /// The clock, in nanoseconds, when it was read last: it is no earlier.
    pub earliest: u64,
    /// It is no later, as long as `jiffy` and `uses` say so.
    pub latest: u64,
    /// `jiffies` at that reading.
    pub jiffy: u64,
    /// Packets that may still do with that reading.
    pub uses: u64,
}

/// The table's data about one source, unpacked from its [`crate::table::entry`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The bucket; see [`crate::arithmetic::bucket`] and [`crate::arithmetic::window`].
    pub tat: u64,
    /// The word with the epoch that `tat` was written in; see [`crate::table::entry::epoch_in`].
    pub over: u64,
    /// Packets of this source that passed, also those that passed only because of shadow.
    pub passed: u64,
    /// Packets of this source that were over the limit: dropped, or passed because of shadow.
    pub refused: u64,
}
