//! Counters of interfaces and limits.

use crate::policy::verdict::Reason;

/// Packets and bytes; a byte count is of whole frames, from the Ethernet header on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

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
    /// Packets that the limit admitted, and that passed.
    pub admitted: Count,
    /// Packets that this limit dropped.
    pub dropped: Count,
    /// Packets that only passed because of shadow. Not among those admitted: counters that are differences would go
    /// back when they are read between two additions.
    pub would_drop: Count,
}

/// Row of [`Counters`] of the fast path, on which the limit in slot 0 is the only one: its counters follow
/// from these.
pub const FAST: u32 = 0;
/// Row of [`Counters`] of the full path, on which each limit has counters too.
pub const FULL: u32 = 1;

/// Reasons that [`Counters`] has room for: one that comes later makes no new layout.
pub const REASONS_MAX: usize = 24;

const _: () = assert!(Reason::ALL.len() <= REASONS_MAX);

/// Counters of one CPU on one interface. Only that CPU writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// One count for each [`Reason`], at the reason's number; 0 beyond them.
    pub by_reason: [Count; REASONS_MAX],
    /// Sources taken into the table.
    pub sources_added: u64,
    /// Sources that lost their entry to another source, after their bucket was full again.
    pub sources_removed: u64,
}
