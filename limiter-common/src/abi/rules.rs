//! The program's settings: limits with their matches, lists, the new-source limit.

use crate::{
    arithmetic::{
        quota::Quota,
        rescale::{self, PAST_QUOTAS, Rescale},
        window::Window,
    },
    table::key::KeyMask,
};

/// The most limits: 32 configured ones, and two on control traffic.
pub const LIMITS_MAX: u32 = 34;

/// The most port ranges of a limit, for source and destination each.
pub const PORTS_MAX: usize = 16;

/// Value of [`Match::protocol`] for any protocol. Value of a packet's protocol, port or flags that cannot be seen: the
/// field matches every limit.
pub const ANY: u32 = u32::MAX;

/// Value of a packet's port or flags if its protocol has no such field.
pub const NONE: u32 = ANY - 1;

/// Bit of the allow list.
pub const ON_ALLOW: u32 = 1 << 0;
/// Bit of the deny list.
pub const ON_DENY: u32 = 1 << 1;
/// Bit of the first tier; the other tiers follow.
pub const FIRST_TIER: u32 = 2;
/// The most lists.
pub const LISTS_MAX: u32 = 32;

/// The packet is a whole datagram.
pub const WHOLE: u32 = 1 << 0;
/// The packet is a first fragment, with the transport header.
pub const FIRST_FRAGMENT: u32 = 1 << 1;
/// The packet is a later fragment: its ports and flags cannot be seen.
pub const LATER_FRAGMENT: u32 = 1 << 2;
/// The packet may have a fragment header that cannot be seen.
pub const ANYWHERE: u32 = WHOLE | FIRST_FRAGMENT | LATER_FRAGMENT;

/// Whether a packet's field `found` may match a limit's field `wanted`.
#[must_use]
#[inline(always)]
pub const fn may_be(wanted: u32, found: u32) -> bool {
    wanted == ANY || found == ANY || wanted == found
}

/// Whether TCP flags `found` may match a limit that requires exactly `set` of the flags in `mask`.
#[must_use]
#[inline(always)]
pub const fn flags_may_be(mask: u32, set: u32, found: u32) -> bool {
    mask == 0 || found == ANY || (found != NONE && found & mask == set)
}

/// A range of ports: the first port in the upper half, the last in the lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct PortRange(u32);

impl PortRange {
    /// The range from `first` to `last`, both included.
    #[must_use]
    pub const fn new(first: u16, last: u16) -> Self {
        Self((first as u32) << 16 | last as u32)
    }

    /// The first port.
    #[must_use]
    #[inline(always)]
    pub const fn first(self) -> u32 {
        self.0 >> 16
    }

    /// The last port.
    #[must_use]
    #[inline(always)]
    pub const fn last(self) -> u32 {
        self.0 & 0xffff
    }

    /// Whether `port` is in the range, or cannot be seen.
    #[must_use]
    #[inline(always)]
    pub const fn contains(self, port: u32) -> bool {
        port == ANY || self.first() <= port && port <= self.last()
    }
}

/// Source or destination ports of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Ports {
    /// Number of ranges; 0: every port, and packets without ports.
    pub length: u32,
    /// The ranges.
    pub ranges: [PortRange; PORTS_MAX],
}

impl Ports {
    const ALL: Self = Self {
        length: 0,
        ranges: [PortRange(0); PORTS_MAX],
    };
}

/// The packets that a limit applies to. All fields must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Match {
    /// 1: only control traffic; 0: no control traffic.
    pub control: u32,
    /// [`crate::table::key::IPV4`], [`crate::table::key::IPV6`], or 0 for both.
    pub family: u32,
    /// Number of the transport protocol, or [`ANY`].
    pub protocol: u32,
    /// Bits of [`WHOLE`], [`FIRST_FRAGMENT`] and [`LATER_FRAGMENT`].
    pub fragments: u32,
    /// TCP flags that are compared; 0: any packet.
    pub flags_mask: u32,
    /// Flags of `flags_mask` that must be set; the others must not.
    pub flags: u32,
    /// Lists, one of which the source must be on; 0: any source.
    pub lists: u32,
    /// Lists that the source must not be on.
    pub unless: u32,
    /// Minimum length of the IP packet, in bytes.
    pub length_min: u32,
    /// Maximum length of the IP packet, in bytes.
    pub length_max: u32,
    /// Destination ports.
    pub destination: Ports,
    /// Source ports.
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
        destination: Ports::ALL,
        source: Ports::ALL,
    };
}

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Limit {
    /// The packets that the limit applies to.
    pub matches: Match,
    /// Its rate and burst.
    pub quota: Quota,
    /// The parts of a packet that select its bucket.
    pub mask: KeyMask,
    /// Position in the maps, below [`crate::table::key::SLOTS`].
    pub slot: u32,
    /// 1: charge and count, but drop nothing.
    pub shadow: u32,
    /// Number of changes of its quota since the limit was added.
    pub epoch: u32,
    /// Valid elements of `past`.
    pub past_length: u32,
    /// Entries of the table that are reserved for the limit; see [`crate::table::share`].
    pub share: u32,
    /// 1: the limit may hold more than its share if no other limit keeps that room.
    pub borrows: u32,
    /// The last changes of quota, newest first: `past[0]` leads from `epoch - 1` to `epoch`.
    pub past: [Rescale; PAST_QUOTAS as usize],
}

impl Limit {
    /// Converts a TAT of `epoch` to the present quota. None if the epoch is later than this program's: another program
    /// has replaced this one, which decides about its last packets on this CPU.
    #[must_use]
    #[inline(always)]
    pub fn on_present(&self, epoch: u32, tat: u64) -> Option<u64> {
        let behind = self.epoch.wrapping_sub(epoch);
        if behind.cast_signed() < 0 {
            return None;
        }
        rescale::carry_over(tat, behind, self.past_length, |index| {
            self.past.get(index as usize)
        })
    }

    /// A limit that matches every packet and admits none. Fills unused elements.
    pub const NONE: Self = Self {
        matches: Match::EVERYTHING,
        quota: Quota {
            tau: 0,
            cost: 0,
            cost_shift: 0,
            flags: 0,
            window: Window::NONE,
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

/// The new-source limit: a token bucket for all limits and, with several limits, one for each; see
/// [`crate::table::share`]. Each CPU leases a few tokens at a time, so that the CPUs do not contend for one word. The
/// number of new sources is bounded by the buckets, plus one lease for each CPU and limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NewSourceQuota {
    /// Depth of the common bucket in ticks.
    pub tau: u64,
    /// Cost of a new source in the common bucket, in ticks; 0: no limit.
    pub cost: u64,
    /// Tokens of a lease; at least 1.
    pub lease: u64,
    /// Depth of each limit's own bucket in ticks.
    pub own_tau: u64,
    /// Cost of a new source in a limit's own bucket, in ticks; 0: limits have no own buckets.
    pub own_cost: u64,
}
