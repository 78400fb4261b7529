//! The program's settings: limits with their matches, lists, the new-source limit.

use crate::{
    arithmetic::{
        quota::{BY_BYTES, Quota},
        rescale::{self, PAST_QUOTAS, Rescale},
    },
    pod::{Pod as _, pod},
    table::key::{KeyMask, NO_NUMBER, SLOTS},
};

/// The most limits: 32 configured ones, and three on control traffic.
pub const LIMITS_MAX: u32 = 35;

/// The most ranges of one field of a limit.
pub const RANGES_MAX: usize = 16;

// Fields of a packet that limits compare with ranges: indexes of `Match::ranges`.

/// The destination port.
pub const DESTINATION_PORT: usize = 0;
/// The source port.
pub const SOURCE_PORT: usize = 1;
/// Length of the IP packet in bytes, at most 65,535.
pub const LENGTH: usize = 2;
/// TTL or hop limit.
pub const TTL: usize = 3;
/// DSCP: the upper six bits of the traffic class.
pub const DSCP: usize = 4;
/// Type of an ICMP message; that of an ICMPv6 message plus [`OF_ICMPV6`].
pub const ICMP_TYPE: usize = 5;
/// Bytes of the payload, behind the header of TCP, UDP, ICMP or ICMPv6.
pub const PAYLOAD_LENGTH: usize = 6;
/// VLAN: the id of the outermost tag whose id is not 0.
pub const VLAN: usize = 7;
/// Number of fields.
pub const FIELDS: usize = 8;

/// Added to the type of an ICMPv6 message, to tell it apart from one of ICMP.
pub const OF_ICMPV6: u32 = 256;

/// Bytes of a payload that limits can compare.
pub const PAYLOAD_MAX: usize = 64;
/// Bytes of a payload that one limit compares.
pub const PATTERN_MAX: usize = 8;

// Bits of `Constants::needs`: what limits use of a packet. The verifier removes the code for what they do not use.

/// Fields behind the fixed part of the IP header, and the length.
pub const NEEDS_TRANSPORT: u32 = 1 << 0;
/// TTL, DSCP or the ICMP type.
pub const NEEDS_HEADER: u32 = 1 << 1;
/// The destination address.
pub const NEEDS_DESTINATION: u32 = 1 << 2;
/// The payload.
pub const NEEDS_PAYLOAD: u32 = 1 << 3;
/// A limit has packets that it does not apply to: [`Limit::except`].
pub const NEEDS_EXCEPT: u32 = 1 << 4;
/// A limit holds sources that it has refused: [`Quota::hold`].
pub const NEEDS_HOLD: u32 = 1 << 6;
/// A limit is adaptive.
pub const NEEDS_SCALE: u32 = 1 << 8;
/// A limit delays packets.
pub const NEEDS_PACE: u32 = 1 << 9;
/// A limit has keys of two addresses; with [`NEEDS_DESTINATION`].
pub const NEEDS_PAIR: u32 = 1 << 7;
/// The lists that the destination is on; with [`NEEDS_DESTINATION`].
pub const NEEDS_DESTINATION_LISTS: u32 = 1 << 5;
/// The lists that the source is on, if lists decide about the destination.
pub const NEEDS_SOURCE_LISTS: u32 = 1 << 10;
/// The length of the payload.
pub const NEEDS_PAYLOAD_LENGTH: u32 = 1 << 11;
/// The answer whether the packet belongs to an established connection; with [`NEEDS_TRANSPORT`] and [`NEEDS_DESTINATION`].
pub const NEEDS_CONNECTION: u32 = 1 << 12;
/// Control traffic of the link is exempt; with [`NEEDS_TRANSPORT`].
pub const NEEDS_CONTROL: u32 = 1 << 20;
/// VRRP is exempt; with [`NEEDS_TRANSPORT`].
pub const NEEDS_VRRP: u32 = 1 << 21;
/// OSPF is exempt; with [`NEEDS_TRANSPORT`].
pub const NEEDS_OSPF: u32 = 1 << 22;
/// BFD is exempt; with [`NEEDS_TRANSPORT`].
pub const NEEDS_BFD: u32 = 1 << 23;

// Bits of `Constants::absent`: what no limit has, so that the program need not ask each.

/// No limit has a cost by length.
pub const NO_BYTES: u32 = 1 << 0;
/// No key has a port or a VLAN.
pub const NO_NUMBERS: u32 = 1 << 1;
/// No limit has leases.
pub const NO_LEASES: u32 = 1 << 2;
/// No limit is in shadow by itself.
pub const NO_SHADOW: u32 = 1 << 3;

/// Bits of what none of these limits has.
pub fn absent(limits: &[Limit]) -> u32 {
    limits.iter().fold(
        NO_BYTES | NO_NUMBERS | NO_LEASES | NO_SHADOW,
        |bits, limit| {
            let has = [
                (NO_BYTES, limit.quota.flags & BY_BYTES != 0),
                (NO_NUMBERS, limit.mask.port != NO_NUMBER),
                (NO_LEASES, limit.lease != 0),
                (NO_SHADOW, limit.shadow != 0),
            ];
            has.into_iter().fold(
                bits,
                |bits, (bit, has)| if has { bits & !bit } else { bits },
            )
        },
    )
}

// Bits of a packet's `control`. A packet without any is no control traffic.

/// Traffic that the link needs: ARP, neighbour discovery, DHCP, group membership.
pub const CONTROL_LINK: u32 = 1 << 0;
/// Traffic that is exempt by name: VRRP, OSPF, BFD.
pub const CONTROL_ROUTING: u32 = 1 << 1;
/// The kinds of control traffic that have limits of their own.
pub const CONTROL_KINDS: u32 = CONTROL_LINK | CONTROL_ROUTING;
/// Neither lists nor bans decide before the limits.
pub const CONTROL_NEAR: u32 = 1 << 2;
/// Bans decide before the limits, and lists do not.
pub const CONTROL_BANNED: u32 = 1 << 3;

/// The VLAN.
pub const NEEDS_VLAN: u32 = 1 << 13;

/// Value of [`Match::protocol`] for any protocol. Value of a packet's protocol, port or flags that cannot be seen: the
/// field matches every limit.
pub const ANY: u32 = u32::MAX;

/// Value of a packet's port or flags if its protocol has no such field.
pub const NONE: u32 = ANY - 1;

/// Bit of the allow list.
pub const ON_ALLOW: u32 = 1 << 0;
/// Bit of the deny list.
pub const ON_DENY: u32 = 1 << 1;
/// Bit of the bans. It is in no list map: the program adds it.
pub const ON_BAN: u32 = 1 << 2;
/// Bit of the first tier; the other tiers follow.
pub const FIRST_TIER: u32 = 3;
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

/// Value of [`Match::established`]: packets of the host's established connections.
pub const OF_CONNECTIONS: u32 = 1;
/// Value of [`Match::established`]: other packets.
pub const OF_OTHERS: u32 = 2;

/// A range of numbers of 16 bits: the first in the upper half, the last in the lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Range(u32);

pod!(Range: 0);

impl Range {
    /// The range from `first` to `last`, both included.
    pub const fn new(first: u16, last: u16) -> Self {
        Self((first as u32) << 16 | last as u32)
    }

    /// The first number.
    #[inline(always)]
    pub const fn first(self) -> u32 {
        self.0 >> 16
    }

    /// The last number.
    #[inline(always)]
    pub const fn last(self) -> u32 {
        self.0 & 0xffff
    }

    /// True if `value` is in the range.
    #[inline(always)]
    pub const fn contains(self, value: u32) -> bool {
        self.first() <= value && value <= self.last()
    }
}

/// Bytes at a place of the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Pattern {
    /// Bits that are compared. The first byte in memory is the first of the payload.
    pub mask: u64,
    /// Values of these bits.
    pub bits: u64,
    /// Offset of the first byte, at most [`PAYLOAD_MAX`] - [`PATTERN_MAX`].
    pub offset: u32,
    /// Offset behind the last byte; 0: no pattern.
    pub end: u32,
}

pod!(Pattern: mask bits offset end);

/// The packets that a limit applies to. All fields must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Match {
    /// Bits of [`CONTROL_KINDS`]: only control traffic of one of these kinds; 0: no control traffic.
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
    /// Lists, one of which the destination must be on; 0: any destination.
    pub destination: u32,
    /// [`OF_CONNECTIONS`], [`OF_OTHERS`], or 0 for all packets.
    pub established: u32,
    /// 1: only packets that no limit without this matches.
    pub other: u32,
    /// 0, for the alignment.
    pub reserved: u32,
    /// Number of ranges of each field, in a byte each. A field without ranges may have any value, or be missing.
    pub counts: u64,
    /// The bytes of the payload.
    pub payload: Pattern,
    /// The ranges of each field.
    pub ranges: [[Range; RANGES_MAX]; FIELDS],
}

pod!(Match: control family protocol fragments flags_mask flags lists unless destination established other reserved
    counts payload ranges);

impl Match {
    /// Every IP packet.
    pub const EVERYTHING: Self = Self {
        protocol: ANY,
        fragments: ANYWHERE,
        ..Self::ZEROS
    };

    /// No packet.
    pub const NOTHING: Self = Self {
        fragments: 0,
        ..Self::EVERYTHING
    };

    /// Number of ranges of a field.
    #[inline(always)]
    pub const fn count(&self, field: usize) -> u32 {
        (self.counts >> (8 * field) & 0xff) as u32
    }

    /// The ranges of a field.
    pub fn ranges(&self, field: usize) -> &[Range] {
        &self.ranges[field][..self.count(field) as usize]
    }

    /// Sets the ranges of a field; at most [`RANGES_MAX`].
    pub fn with(mut self, field: usize, ranges: &[Range]) -> Self {
        for (place, range) in self.ranges[field].iter_mut().zip(ranges) {
            *place = *range;
        }
        let count = ranges.len().min(RANGES_MAX) as u64;
        self.counts = self.counts & !(0xff << (8 * field)) | count << (8 * field);
        self
    }
}

/// One limit. What every packet needs comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Limit {
    /// Its rate and burst.
    pub quota: Quota,
    /// Ticks that a CPU takes from the bucket at a time, for packets to come; 0: each packet is charged by itself. See
    /// [`Quota::lease`].
    pub lease: u64,
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
    /// The packets that the limit applies to.
    pub matches: Match,
    /// Packets of these that the limit does not apply to.
    pub except: Match,
}

pod!(Limit: quota lease mask slot shadow epoch past_length share borrows past matches except);

impl Limit {
    /// Converts a TAT of `epoch` to the present quota. None if the epoch is later than this program's: another program
    /// has replaced this one, which decides about its last packets on this CPU.
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

    /// Lets `cpus` CPUs lease tokens of the interface's bucket, if its quota allows that. Returns true if they do.
    pub fn lease(&mut self, cpus: u64) -> bool {
        if self.mask.interface != 0 && self.mask.port == 0 {
            (self.quota, self.lease) = self.quota.with_leases(cpus);
        }
        self.lease != 0
    }

    /// A limit that matches every packet and admits none. Fills unused elements.
    pub const NONE: Self = Self {
        mask: KeyMask::interface(),
        past: [Rescale::NONE; PAST_QUOTAS as usize],
        matches: Match::EVERYTHING,
        except: Match::NOTHING,
        ..Self::ZEROS
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

pod!(NewSourceQuota: tau cost lease own_tau own_cost);

impl NewSourceQuota {
    /// No tokens are counted.
    pub const NONE: Self = Self {
        lease: 1,
        ..Self::ZEROS
    };
}

/// Budget of sources that come for the first time: the new-source limit.
pub const FIRST: u32 = 0;
/// Budget of second chances.
pub const SECOND: u32 = 1;
/// Budget of sources that have proven their address.
pub const PROVEN: u32 = 2;
/// Budget of answers that ask for a proof.
pub const ANSWERS: u32 = 3;
/// Number of budgets.
pub const BUDGETS: u32 = 4;

/// Rows of the buckets and leases of new-source tokens: those of each budget, with one for each slot.
pub const ROWS: u32 = BUDGETS * SLOTS;

/// The row of the limit in `slot` for `budget`.
#[inline(always)]
pub const fn row(slot: u32, budget: u32) -> u32 {
    SLOTS * budget + slot
}
