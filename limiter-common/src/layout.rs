//! The shapes of the program's constants and maps, which both sides must agree on.
//!
//! Every type is `repr(C)`, of 32- and 64-bit words, without padding. Change one and [`VERSION`]
//! goes up: it is part of the path under which maps are pinned, so that a program never meets maps
//! of another shape.

use crate::candidates::{ByByte, Candidates};
use crate::counters::{Count, Counters, LimitCounters};
use crate::entry::Entry;
use crate::key::{Address, KeyMask, SLOTS, SourceKey};
use crate::limit::Terms;
use crate::rescale::{PAST_TERMS, Rescale, Shape};
use crate::rules::{LIMITS_MAX, Limit, Match, Newcomers, Ports};
use crate::table::{DISPLACED_WIDTH, Seed, WAYS};
use crate::watch::{Budget, Event, Watch, Watched};
use crate::window::Window;

/// Version of everything in this file, and of the maps that are pinned. What to do when it goes up: ARCHITECTURE.md,
/// "Layouts".
pub const VERSION: u32 = 8;

/// Where the program's clock comes from.
pub const CLOCK_KERNEL: u32 = 0;
/// The packet brings its own time as [`Stamp`] metadata: for tests and for replay.
pub const CLOCK_PACKET: u32 = 1;

/// Index in the program arrays of the program that limiter runs in front of.
pub const NEXT_FOREIGN: u32 = 0;
/// Index in the program arrays of the program that a trial falls back to.
pub const NEXT_FALLBACK: u32 = 1;

/// What stands in [`Config::indices`] for a slot that no limit has.
pub const NO_LIMIT: u32 = u32::MAX;

/// The program's constants: set once before it is loaded, so that the verifier removes the code of
/// what they switch off. A change of them is a new program over the same maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// The limits, in the order in which they are looked at.
    pub limits: [Limit; LIMITS_MAX as usize],
    /// Which of them may match a packet.
    pub candidates: Candidates,
    /// The limit on new sources.
    pub newcomers: Newcomers,
    /// Which set is whose.
    pub seed: Seed,
    /// The kernel's tick in nanoseconds, after which `jiffies` goes up; 0: always read the clock.
    pub tick: u64,
    /// When the trial of this program ends, in nanoseconds of the kernel's clock; 0: it is not on trial.
    pub deadline: u64,
    /// Index of the limit that has a slot; [`NO_LIMIT`] where there is none.
    pub indices: [u32; SLOTS as usize],
    /// Limits in use.
    pub limits_length: u32,
    /// 1: the first limit is the only one, holds every IP packet, drops what is over it, and has slot 0;
    /// and there are neither lists nor control traffic. Tells the loader which entry to take.
    pub plain: u32,
    /// Sets of the table: an even number; at least 2.
    pub sets: u32,
    /// 1: charge and count as always, but drop nothing.
    pub shadow: u32,
    /// 1: let malformed IP through.
    pub malformed_passes: u32,
    /// [`CLOCK_KERNEL`] or [`CLOCK_PACKET`].
    pub clock: u32,
    /// 1: there are prefixes of IPv4 on lists.
    pub lists_ipv4: u32,
    /// 1: there are prefixes of IPv6 on lists.
    pub lists_ipv6: u32,
    /// 1: limits look behind the IP header's fixed part.
    pub transport: u32,
    /// 1: control traffic is told apart.
    pub control: u32,
    /// 1: what would be dropped is looked up among the host's sockets.
    pub established: u32,
    /// Entries of the table that limits share; 0: there is one limit, which has them all.
    pub room: u32,
    /// 1: packets that pass go on to the program at [`NEXT_FOREIGN`].
    pub chained: u32,
    /// The index of the program that packets go to after the deadline. No program at [`NEXT_FOREIGN`]: they pass.
    pub after_deadline: u32,
}

impl Config {
    /// No limit.
    pub const NONE: Self = Self {
        limits: [Limit::NONE; LIMITS_MAX as usize],
        candidates: Candidates::NONE,
        newcomers: Newcomers {
            tau: 0,
            cost: 0,
            lease: 1,
            own_tau: 0,
            own_cost: 0,
        },
        seed: Seed::KNOWN,
        tick: 0,
        deadline: 0,
        indices: [NO_LIMIT; SLOTS as usize],
        limits_length: 0,
        plain: 0,
        sets: 2,
        shadow: 0,
        malformed_passes: 0,
        clock: CLOCK_KERNEL,
        lists_ipv4: 0,
        lists_ipv6: 0,
        transport: 0,
        control: 0,
        established: 0,
        room: 0,
        chained: 0,
        after_deadline: NEXT_FOREIGN,
    };
}

/// What the table keeps of one source, unpacked from its [`crate::entry`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The bucket; see [`crate::bucket`] and [`crate::window`].
    pub tat: u64,
    /// The word with the [`Limit::epoch`] on whose terms `tat` stands; see [`crate::entry::epoch_in`].
    pub over: u64,
    /// Packets of this source that passed, those that only did because of shadow among them.
    pub passed: u64,
    /// Packets of this source that were over the limit: dropped, or passed because of shadow.
    pub refused: u64,
}

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
    /// Which set is whose. Programs have it among their constants.
    pub seed: Seed,
    /// The set that is looked at next for entries that nobody needs; wraps.
    pub hand: u64,
    /// Keeps the word below, which changes at every lease, off the cache line of others.
    pub apart: [u64; 11],
    /// The bucket of the newcomer limit.
    pub newcomers: u64,
}

/// What a limit has of the table and of the newcomer limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Share {
    /// Entries that its sources take; see [`crate::share::held`].
    pub held: u64,
    /// The limit's own bucket of new sources.
    pub newcomers: u64,
}

/// What a CPU has leased of new sources for one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Lease {
    /// New sources that may still be taken in without asking the newcomer limit.
    pub tokens: u64,
    /// New sources that are refused without asking it.
    pub dry: u64,
    /// `jiffies` when that was said, and only as long as they are the same.
    pub jiffy: u64,
}

/// What a list map keeps of one prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Listed {
    /// The lists that decide about sources of this prefix: what it is on itself, or else the prefix
    /// around it.
    pub lists: u32,
    /// The lists that the prefix itself is on.
    pub own: u32,
    /// Packets that the deny list dropped; see [`crate::denied`]. 0 of a prefix that it does not decide about.
    pub dropped: u64,
}

/// Metadata in front of a packet where the clock is [`CLOCK_PACKET`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stamp {
    /// In: the time, in nanoseconds.
    pub nanoseconds: u64,
    /// Out: the number of the [`crate::verdict::Reason`].
    pub reason: u32,
    /// In: how far from `nanoseconds` the bounds lie that the program is given to begin with. What it
    /// decides must not depend on it.
    pub spread: u32,
    /// In: bytes that the frame had, of which the packet may be only the beginning; 0: those of the packet.
    pub length: u64,
}

/// What a CPU knows of the time by itself.
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

/// Asserts at compile time that a type has exactly the bytes of its fields.
macro_rules! assert_bytes {
    ($($type:ty: $bytes:expr),+ $(,)?) => {
        $(const _: () = assert!(size_of::<$type>() == $bytes);)+
    };
}

assert_bytes! {
    Window: 3 * 8,
    Terms: 8 + 8 + 4 + 4 + 24,
    KeyMask: 2 * 16 + 4 * 4,
    SourceKey: 16 + 2 * 4,
    Address: 16 + 2 * 4,
    Shape: 8 + 24,
    Rescale: 8 + 2 * 32 + 4 * 8,
    Ports: 4 + 16 * 4,
    Limit: size_of::<Match>() + 48 + 48 + 6 * 4 + PAST_TERMS as usize * 104,
    ByByte: 257 * 8,
    Candidates: 8 * 8 + 3 * 257 * 8 + 8,
    Newcomers: 5 * 8,
    Config: LIMITS_MAX as usize * size_of::<Limit>() + 6240 + 40 + 32 + 2 * 8 + SLOTS as usize * 4 + 14 * 4,
    Count: 2 * 8,
    Counters: 24 * 16 + 2 * 8,
    LimitCounters: 3 * 16,
    Entry: 4 * 8,
    Set: 64,
    Table: 17 * 8,
    Share: 2 * 8,
    Lease: 3 * 8,
    Listed: 2 * 4 + 8,
    Stamp: 8 + 4 + 4 + 8,
    Cpu: 4 * 8,
    Watch: 10 * 8,
    Budget: 2 * 8,
    Watched: 16 + 3 * 8,
    Event: 6 * 8 + 10 * 4,
}
