//! Settings of the program: limits with their matches, lists, the new-source limit.

use crate::{
    arithmetic::{
        quota::Quota,
        rescale::{PAST_QUOTAS, Rescale},
        window::Window,
    },
    table::key::KeyMask,
};

/// Limits that the program has room for: 32 that are written, and two on control traffic.
pub const LIMITS_MAX: u32 = 34;

/// Ranges of ports that a limit matches on, for either end.
pub const PORTS_MAX: usize = 16;

/// Value of [`Match::protocol`] if it does not matter. Value of a packet's protocol, port or flags that cannot be
/// seen: it may be any, and every limit that could match is charged.
pub const ANY: u32 = u32::MAX;

/// Value of a packet's port or flags if its protocol has none.
pub const NONE: u32 = ANY - 1;

/// Bit of the list of sources that pass.
pub const ON_ALLOW: u32 = 1 << 0;
/// Bit of the list of sources that are dropped.
pub const ON_DENY: u32 = 1 << 1;
/// The tiers follow.
pub const FIRST_TIER: u32 = 2;
/// Bits that there are for lists.
pub const LISTS_MAX: u32 = 32;

/// Place of a packet in a datagram: the packet is a whole datagram.
pub const WHOLE: u32 = 1 << 0;
/// The first fragment: the transport header is in it.
pub const FIRST_FRAGMENT: u32 = 1 << 1;
/// A later fragment: its ports and flags cannot be seen.
pub const LATER_FRAGMENT: u32 = 1 << 2;
/// A packet that may have a fragment header, which cannot be seen.
pub const ANYWHERE: u32 = WHOLE | FIRST_FRAGMENT | LATER_FRAGMENT;

/// Whether a packet's field with the value `found` may match a limit that wants `wanted`.
#[must_use]
#[inline(always)]
pub const fn may_be(wanted: u32, found: u32) -> bool {
    wanted == ANY || found == ANY || wanted == found
}

/// Whether `found` TCP flags may match a limit that looks at those of `mask`, and wants `set` of them.
#[must_use]
#[inline(always)]
pub const fn flags_may_be(mask: u32, set: u32, found: u32) -> bool {
    mask == 0 || found == ANY || (found != NONE && found & mask == set)
}

/// A range of ports: the first in the upper half, the last in the lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct PortRange(u32);

impl PortRange {
    /// From `first` to `last`, both in it.
    #[must_use]
    pub const fn new(first: u16, last: u16) -> Self {
        Self((first as u32) << 16 | last as u32)
    }

    /// The first port in it.
    #[must_use]
    #[inline(always)]
    pub const fn first(self) -> u32 {
        self.0 >> 16
    }

    /// The last one.
    #[must_use]
    #[inline(always)]
    pub const fn last(self) -> u32 {
        self.0 & 0xffff
    }

    /// Whether `port` is in it, or may be.
    #[must_use]
    #[inline(always)]
    pub const fn holds(self, port: u32) -> bool {
        port == ANY || self.first() <= port && port <= self.last()
    }
}

/// Ports of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Ports {
    /// Ranges in use; 0: every port, and packets without one.
    pub length: u32,
    /// The ranges.
    pub ranges: [PortRange; PORTS_MAX],
}

/// The packets that a limit holds. All fields must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Match {
    /// 1: only control traffic, which no other limit then matches.
    pub control: u32,
    /// [`crate::table::key::IPV4`], [`crate::table::key::IPV6`], or 0 for both.
    pub family: u32,
    /// Number of the transport protocol, or [`ANY`].
    pub protocol: u32,
    /// Some of [`WHOLE`], [`FIRST_FRAGMENT`], [`LATER_FRAGMENT`].
    pub fragments: u32,
    /// TCP flags that are looked at; 0: no segment needed.
    pub flags_mask: u32,
    /// Flags of `flags_mask` that must be set.
    pub flags: u32,
    /// Lists, of which the source is on one; 0: whatever the source.
    pub lists: u32,
    /// Lists, of which the source is on none.
    pub unless: u32,
    /// The least length of the IP packet, in bytes.
    pub length_min: u32,
    /// The greatest length of the IP packet, in bytes.
    pub length_max: u32,
    /// Destination.
    pub destination: Ports,
    /// Source.
    pub source: Ports,
}

const _: () = assert!(size_of::<Match>() == 10 * 4 + 2 * size_of::<Ports>());

impl Match {
    /// Every IP packet.
    pub const EVERYTHING: Self = Self {
        control: 0,
        family: 0,
        protocol: ANY,
        fragments: ANYWHERE,
        flags_mask: 0,
        flags: 0,
        lists: 0,
        unless: 0,
        length_min: 0,
        length_max: u32::MAX,
        destination: Ports {
            length: 0,
            ranges: [PortRange(0); PORTS_MAX],
        },
        source: Ports {
            length: 0,
            ranges: [PortRange(0); PORTS_MAX],
        },
    };
}

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Limit {
    /// The packets that the limit holds.
    pub matches: Match,
    /// Its rate and burst.
    pub quota: Quota,
    /// The parts of a packet that make its bucket.
    pub mask: KeyMask,
    /// The slot of the limit's own buckets and counters; below [`crate::table::key::SLOTS`].
    pub slot: u32,
    /// 1: charge and count, but drop nothing.
    pub shadow: u32,
    /// Number of changes of its quota since the limit came.
    pub epoch: u32,
    /// Valid entries of `past`.
    pub past_length: u32,
    /// Entries of the table that are kept for it; see [`crate::table::share`].
    pub share: u32,
    /// 1: it takes more than its share if there is room that no other limit keeps.
    pub borrows: u32,
    /// The last changes of quota, newest first: `past[0]` leads from `epoch - 1` to `epoch`.
    pub past: [Rescale; PAST_QUOTAS as usize],
}

impl Limit {
    /// Matches everything and admits nothing: fills the places that no limit takes.
    pub const NONE: Self = Self {
        matches: Match::EVERYTHING,
        quota: Quota {
            tau: 0,
            cost: 0,
            cost_shift: 0,
            flags: 0,
            window: Window {
                period: 0,
                phase: 0,
                grant: 0,
            },
        },
        mask: KeyMask::interface(),
        slot: 0,
        shadow: 0,
        epoch: 0,
        past_length: 0,
        share: 0,
        borrows: 0,
        past: [Rescale::NONE; PAST_QUOTAS as usize],
    };
}

/// The limit on new sources: a token bucket for all limits and, if there are several, one for each of them; see
/// [`crate::table::share`]. Each CPU takes a few tokens at a time, so that the CPUs do not all fight over one word. At
/// most the tokens of the buckets and one lease for each CPU and limit pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NewSourceQuota {
    /// Depth of the common bucket in ticks.
    pub tau: u64,
    /// Ticks that one new source costs there; 0: no limit.
    pub cost: u64,
    /// New sources that a CPU leases at once; at least 1.
    pub lease: u64,
    /// Depth of each limit's own bucket in ticks.
    pub own_tau: u64,
    /// Ticks that one new source costs there; 0: there are none.
    pub own_cost: u64,
}
