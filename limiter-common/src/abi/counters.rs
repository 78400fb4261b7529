//! Counters of interfaces and limits.

use crate::{pod::pod, policy::verdict::Reason};

/// Packets and bytes. Bytes are those of whole frames, from the Ethernet header on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

pod!(Count: packets bytes);

impl core::ops::Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets.wrapping_add(other.packets),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }
}

impl core::iter::Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), core::ops::Add::add)
    }
}

/// Counters of one CPU for one limit. Only that CPU writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LimitCounters {
    /// Packets that the limit admitted and that passed.
    pub admitted: Count,
    /// Packets that this limit dropped.
    pub dropped: Count,
    /// Packets that passed only because of shadow. Not part of `admitted`, because a difference of two counters could
    /// decrease if it is read between two additions.
    pub would_drop: Count,
}

pod!(LimitCounters: admitted dropped would_drop);

/// Row of [`Counters`] of the fast path. The counters of its only limit follow from them.
pub const FAST_PATH: u32 = 0;
/// Row of [`Counters`] of the full path. Each limit also has [`LimitCounters`].
pub const FULL_PATH: u32 = 1;

/// Reasons that [`Counters`] has room for, so that a new reason needs no new layout.
pub const REASONS_MAX: usize = 24;

const _: () = assert!(Reason::ALL.len() <= REASONS_MAX);

/// Counters of one CPU on one interface. Only that CPU writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// One count for each [`Reason`], by the reason's number.
    pub by_reason: [Count; REASONS_MAX],
    /// Sources added to the table.
    pub sources_added: u64,
    /// Sources removed from the table after their bucket was full again.
    pub sources_removed: u64,
    /// Packets of new sources that were refused before, long enough ago for a second chance.
    pub came_again: u64,
    /// Sources of these that were admitted by a second chance.
    pub second_chances: u64,
    /// Sources that were admitted because they have proven their address.
    pub proven: u64,
    /// Nanoseconds of all delays.
    pub delayed: u64,
    /// Packets by their delay: below [`delay_bound`] of the index, and not below that of the one before; the last has all
    /// others.
    pub delays: [u64; DELAYS],
}

pod!(Counters: by_reason sources_added sources_removed came_again second_chances proven delayed delays);

/// Length of [`Counters::delays`].
pub const DELAYS: usize = 16;

/// The bound of delays at this index, in nanoseconds: 131 µs and its doubles, up to 2.1 s.
#[inline(always)]
pub const fn delay_bound(index: usize) -> u64 {
    1 << (17 + index)
}
