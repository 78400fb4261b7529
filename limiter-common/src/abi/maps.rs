//! The values of the maps.

use super::rules::BUDGETS;
use crate::{
    index::{halves, joined},
    pod::pod,
    table::{OVERFLOW_WIDTH, Seed, WAYS, entry::Entry},
};

/// A set of the table: one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Set {
    /// The entries.
    pub entries: [Entry; WAYS as usize],
}

pod!(Set: entries);

/// Nanoseconds for which a source with more than one packet keeps its entry after its bucket is full again. So a flood
/// of sources that send one packet each does not remove known sources.
pub const KEPT_FOR: u64 = 10_000_000_000;

/// Sets that share a word of [`crate::table::Overflow`] bytes.
pub const SETS_OF_WORD: u32 = u64::BITS / OVERFLOW_WIDTH;

/// Locks for new sources: more than CPUs that add a source at once. Two sets may share a lock.
pub const LOCKS: u32 = 1024;

/// State of the whole table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Table {
    /// The seed that assigns sources to sets, also among the program's constants.
    pub seed: Seed,
    /// The set at which the next sweep begins; wraps.
    pub hand: u64,
    /// Keeps `new_sources`, which changes at every lease, on a cache line of its own.
    pub apart: [u64; 11],
    /// The bucket of each budget of new-source tokens.
    pub new_sources: [u64; BUDGETS as usize],
}

pod!(Table: seed hand apart new_sources);

/// A limit's part of the table and of the new-source limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Share {
    /// Entries that the limit holds; see [`crate::table::share::held`].
    pub held: u64,
    /// The limit's own bucket of new-source tokens.
    pub new_sources: u64,
}

pod!(Share: held new_sources);

/// A CPU's lease of new-source tokens for one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Lease {
    /// Tokens left of the lease.
    pub tokens: u64,
    /// New sources that are refused without another attempt to get a lease.
    pub dry: u64,
    /// `jiffies` when `dry` was set. `dry` is valid only until they change.
    pub jiffy: u64,
}

pod!(Lease: tokens dry jiffy);

/// The lists of one prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The lists that decide about sources of this prefix: its own, or those of the prefix around it.
    pub lists: u32,
    /// The lists that the prefix itself is on.
    pub own: u32,
    /// One more than the length of the longest prefix on the allow list that contains these sources, in bits of an IPv6
    /// address; 0 if there is none.
    pub allowed: u32,
}

impl Listed {
    /// The record of the prefix's addresses in the index of the lists: all but the lists that the prefix itself is on.
    pub const fn record(&self) -> u64 {
        joined(self.lists, self.allowed)
    }

    /// The lists in a record.
    #[inline(always)]
    pub const fn of_record(record: u64) -> Self {
        let (lists, allowed) = halves(record);
        Self {
            lists,
            own: 0,
            allowed,
        }
    }
}

/// The end of a ban. It has two, because many bans change at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Ends {
    /// The end from `change` on, in nanoseconds of the kernel's clock; 0: no end.
    pub until: u64,
    /// The end before `change`, likewise.
    pub before: u64,
    /// Number of the change.
    pub change: u64,
}

pod!(Ends: until before change);

/// All bans of one prefix together, for the packet path. The key is the prefix's IPv6 form: IPv4 addresses are mapped to
/// `::ffff:0:0/96`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PrefixBans {
    /// The latest end of all bans that drop packets.
    pub all: Ends,
    /// The latest end of the bans by hand that drop packets. Over those of programs, every allowed prefix around a source
    /// takes precedence.
    pub by_hand: Ends,
    /// The latest end of the bans that only put sources on the list of throttled ones.
    pub throttled: Ends,
    /// Packets that were dropped; see [`crate::policy::ban::increment`].
    pub dropped: u64,
    /// Length of the prefix, in bits of an IPv6 address.
    pub bits: u32,
    /// One bit for each [`BanKey::owner`] whose ban may be there. For user space only.
    pub owners: u32,
}

pod!(PrefixBans: all by_hand throttled dropped bits owners);

/// The key of a [`Ban`]: the prefix's IPv6 form, and the number of the ban among those of the prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BanKey {
    /// The address, in network byte order.
    pub address: [u8; 16],
    /// Length of the prefix, in bits of an IPv6 address.
    pub bits: u32,
    /// A number below [`OWNERS_MAX`].
    pub owner: u32,
}

pod!(BanKey: address bits owner);

/// The most bans of one prefix, each of another origin.
pub const OWNERS_MAX: u32 = u32::BITS;

/// The ban of one prefix by one origin. The program does not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ban {
    /// The end.
    pub ends: Ends,
    /// The time at which the ban was made or last renewed, in nanoseconds of the kernel's clock.
    pub made: u64,
    /// The person or program that made the ban, in UTF-8, padded with zeros.
    pub origin: [u8; ORIGIN_MAX],
    /// The reason in words, in UTF-8, padded with zeros.
    pub reason: [u8; REASON_MAX],
    /// 1: `limiter ban` made the ban, and no program makes it again after a restart.
    pub is_kept: u32,
    /// 1: the ban drops nothing, and puts its sources on the list of throttled ones.
    pub is_throttle: u32,
}

pod!(Ban: ends made origin reason is_kept is_throttle);

/// Bytes of [`Ban::origin`].
pub const ORIGIN_MAX: usize = 32;
/// Bytes of [`Ban::reason`].
pub const REASON_MAX: usize = 40;

/// Numbers of bans in the maps, never too low: user space raises them before it adds a ban. Number of the last change
/// that is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BanCounts {
    /// Banned addresses, and banned prefixes of several addresses.
    pub counts: [u64; 2],
    /// No ban ends before this time, in nanoseconds of the kernel's clock. For user space only.
    pub first_end: u64,
    /// Bans of later changes have the end that they had before.
    pub change: u64,
    /// Bans: one for each prefix and origin. For user space only.
    pub bans: u64,
}

pod!(BanCounts: counts first_end change bans);

/// Metadata in front of a packet, or its control block, if the clock is [`super::CLOCK_PACKET`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stamp {
    /// In: the time, in nanoseconds.
    pub nanoseconds: u64,
    /// Out: the number of the [`crate::policy::verdict::Reason`].
    pub reason: u32,
    /// In: distance in nanoseconds from `nanoseconds` to the first bounds of the time. The decision must not depend on
    /// it.
    pub uncertainty: u32,
    /// In: bytes of the frame, if the packet is only its beginning; 0: the packet's length.
    pub length: u32,
    /// 0, for the alignment.
    pub reserved: u32,
}

pod!(Stamp: nanoseconds reason uncertainty length reserved);

/// The last reading of the clock on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Cpu {
    /// The reading, in nanoseconds: the time is no earlier.
    pub earliest: u64,
    /// The time is no later, while `jiffy` is current and `uses` is above 0.
    pub latest: u64,
    /// `jiffies` at the reading.
    pub jiffy: u64,
    /// Packets that may still use the reading.
    pub uses: u64,
}

pod!(Cpu: earliest latest jiffy uses);

/// The bucket and counters of one source, unpacked from its [`crate::table::entry`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The TAT; see [`crate::arithmetic::bucket`] and [`crate::arithmetic::window`].
    pub tat: u64,
    /// The word with the epoch of `tat`; see [`crate::table::entry::epoch_in`].
    pub over: u64,
    /// Packets that passed, including those that passed only because of shadow.
    pub passed: u64,
    /// Packets over the limit: dropped, or passed only because of shadow.
    pub refused: u64,
}
