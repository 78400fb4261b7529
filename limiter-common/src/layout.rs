//! The shapes of the program's constants and maps, which both sides must agree on.
//!
//! Every type is `repr(C)`, of 32- and 64-bit words, without padding. Change one and [`VERSION`]
//! goes up: it is part of the path under which maps are pinned, so that a program never meets maps
//! of another shape.

use crate::bucket::{PAST_TERMS, Rescale};
use crate::counters::{Count, Counters};
use crate::key::{KeyMask, SourceKey};
use crate::limit::Terms;

/// Version of everything in this file.
pub const VERSION: u32 = 1;

/// Where the program's clock comes from.
pub const CLOCK_KERNEL: u32 = 0;
/// The packet brings its own time as [`Stamp`] metadata: for tests and for replay.
pub const CLOCK_PACKET: u32 = 1;

/// The program's constants: set once before it is loaded, so that the verifier removes the code of
/// what they switch off. A change of them is a new program over the same maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// The limit that holds every IP packet.
    pub terms: Terms,
    /// What of a source address makes its bucket.
    pub mask: KeyMask,
    /// Sources that the table holds; at least 1.
    pub capacity: u32,
    /// 1: charge and count as always, but drop nothing.
    pub shadow: u32,
    /// 1: let malformed IP through.
    pub malformed_passes: u32,
    /// [`CLOCK_KERNEL`] or [`CLOCK_PACKET`].
    pub clock: u32,
    /// How often the terms were changed since attach.
    pub epoch: u32,
    /// Valid entries of `past`.
    pub past_length: u32,
    /// The last changes of terms, newest first: `past[0]` leads from `epoch - 1` to `epoch`.
    pub past: [Rescale; PAST_TERMS as usize],
}

/// What the table keeps of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Source {
    /// The bucket; see [`crate::bucket`].
    pub tat: u64,
    /// The [`Config::epoch`] on whose terms `tat` stands.
    pub epoch: u32,
    /// Index of the [`Place`] that it has.
    pub place: u32,
    /// Packets of this source that passed, those in `would_drop` among them.
    pub passed: Count,
    /// Packets of this source that were dropped.
    pub dropped: Count,
    /// Packets that only passed because of shadow.
    pub would_drop: Count,
}

/// A place in the table. The hash map finds a source by its key; the places give an order in which
/// to look for a bucket that is full again when there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    /// [`PLACE_FREE`], [`PLACE_TAKEN`] or [`PLACE_LOCKED`].
    pub state: u64,
    /// Who has it, where it is taken.
    pub key: SourceKey,
    /// Makes the size a multiple of eight without padding.
    pub reserved: u32,
}

/// Nobody has the place.
pub const PLACE_FREE: u64 = 0;
/// The place belongs to the source in `key`.
pub const PLACE_TAKEN: u64 = 1;
/// A CPU is handing the place over.
pub const PLACE_LOCKED: u64 = 2;

/// The one record of what all CPUs do to the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Table {
    /// The next place to look at, modulo the capacity. Written at every new source.
    pub hand: u64,
    /// Keeps `hand`, which changes often, off the cache line of the two below.
    pub apart: [u64; 15],
    /// Removals that were begun.
    pub removals_begun: u64,
    /// Removals that are done. While the two agree, nothing that was found can have changed hands.
    pub removals_done: u64,
}

/// Metadata in front of a packet where the clock is [`CLOCK_PACKET`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stamp {
    /// In: the time, in nanoseconds.
    pub nanoseconds: u64,
    /// Out: the number of the [`crate::verdict::Reason`].
    pub reason: u32,
    /// Makes the size a multiple of eight without padding.
    pub reserved: u32,
}

/// Asserts at compile time that a type has exactly the bytes of its fields.
macro_rules! assert_bytes {
    ($($type:ty: $bytes:expr),+ $(,)?) => {
        $(const _: () = assert!(size_of::<$type>() == $bytes);)+
    };
}

assert_bytes! {
    Terms: 8 + 8 + 4 + 4,
    KeyMask: 4 + 4 + 16,
    SourceKey: 4 + 16,
    Rescale: 7 * 8,
    Config: 24 + 24 + 6 * 4 + PAST_TERMS as usize * 56,
    Count: 2 * 8,
    Counters: 10 * 16 + 2 * 8,
    Source: 8 + 2 * 4 + 3 * 16,
    Place: 8 + 20 + 4,
    Table: 18 * 8,
    Stamp: 8 + 4 + 4,
}
