//! Events of `watch`: the switch that the watching process sets, the budget of each CPU, and the record of one drop.

use core::mem::offset_of;

use crate::table::key::Words;

/// The watching process, its deadline and its filter. User space maps it, and writes each word at once; the program
/// reads it when it drops a packet. All but [`Self::until`] and [`Self::slot`] is written only while `until` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Watch {
    /// End of the watch, in nanoseconds of the monotonic clock; 0: no watch. The watching process puts it off
    /// while it runs. If that process is killed, the watch lapses by itself.
    pub until: u64,
    /// Number of the watch session, repeated by [`Event::session`].
    pub session: u64,
    /// The reasons that are wanted: a bit for each, at the reason's number.
    pub reasons: u64,
    /// Slot of the limit that is wanted, or [`ANY_SLOT`].
    pub slot: u64,
    /// Family of the sources that are wanted; 0 for all, also for unknown families.
    pub family: u64,
    /// The bits of an address that are compared.
    pub mask: Words,
    /// The values of these bits.
    pub address: Words,
    /// Id of the process that watches.
    pub process: u64,
}

/// Value of [`Watch::slot`] for all limits, and for what no limit has dropped.
pub const ANY_SLOT: u64 = u64::MAX;

/// One CPU's state of the watch. Only that CPU writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Watched {
    /// Events that the CPU may emit now.
    pub budget: Budget,
    /// `jiffies` when the clock was read last.
    pub jiffy: u64,
    /// The [`Watch::until`] that the clock was compared with then.
    pub until: u64,
    /// Drops that were wanted, but not emitted.
    pub lost: u64,
}

/// Events that one CPU may still emit: a token bucket by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Budget {
    /// Events.
    pub left: u64,
    /// Time up to which it was refilled, in nanoseconds.
    pub since: u64,
}

/// Nanoseconds in which a CPU may tell one event more: 1,000 a second.
pub const EVENT_COST: u64 = 1_000_000;

/// Events that a CPU may tell at once.
pub const EVENT_BURST: u64 = 256;

impl Budget {
    /// The budget refilled up to `now`, in nanoseconds.
    #[must_use]
    #[inline(always)]
    pub const fn refilled(self, now: u64) -> Self {
        let earned = now.saturating_sub(self.since) / EVENT_COST;
        let left = self.left.saturating_add(earned);
        if left >= EVENT_BURST {
            return Self {
                left: EVENT_BURST,
                since: now,
            };
        }
        Self {
            left,
            since: self.since + earned * EVENT_COST,
        }
    }
}

/// Bytes of the ring buffer: a power of two, and whole pages wherever those have up to 64 KiB.
pub const EVENTS_BYTES: u32 = 128 * 1024;

/// One packet that was dropped, or would have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// Time of the drop, in nanoseconds of the monotonic clock.
    pub nanoseconds: u64,
    /// The session that wanted it; see [`Watch::session`].
    pub session: u64,
    /// Its source as it stands in the packet.
    pub source: Words,
    /// [`crate::table::key::IPV4`] or [`crate::table::key::IPV6`]; 0 if it is unknown.
    pub family: u32,
    /// Transport protocol; [`ARP`], or [`crate::abi::rules::ANY`] if it is unknown.
    pub protocol: u32,
    /// Destination port, [`crate::abi::rules::ANY`] or [`crate::abi::rules::NONE`].
    pub destination_port: u32,
    /// Slot of the limit that it is over, or [`crate::abi::NO_LIMIT`].
    pub slot: u32,
    /// Bytes of the frame.
    pub length: u32,
    /// Number of the [`crate::policy::verdict::Reason`], one that drops.
    pub reason: u32,
    /// 1: it only passed because of shadow.
    pub would_drop: u32,
    /// 1: [`Self::destination`] is known.
    pub has_destination: u32,
    /// Its destination as it stands in the packet.
    pub destination: Words,
    /// Source port, [`crate::abi::rules::ANY`] or [`crate::abi::rules::NONE`].
    pub source_port: u32,
    /// TCP flags, likewise.
    pub flags: u32,
}

impl Event {
    /// Bytes of the event of a program that tells neither destination, source port nor flags.
    pub const SHORT: usize = offset_of!(Self, destination);
}

/// [`Event::protocol`] of ARP: its EtherType, which is no number of a transport protocol.
pub const ARP: u32 = 0x0806;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_budget_refills_with_time_up_to_its_burst() {
        let mut budget = Budget::default().refilled(10 * EVENT_COST);
        assert_eq!(budget.left, 10);
        budget = budget.refilled(10 * EVENT_COST + EVENT_COST - 1);
        assert_eq!(budget.left, 10, "a part of one is none");
        budget = budget.refilled(11 * EVENT_COST);
        assert_eq!(budget.left, 11, "and is not lost");
        budget = budget.refilled(EVENT_COST);
        assert_eq!(budget.left, 11, "a clock that was set back");
        assert_eq!(budget.refilled(u64::MAX).left, EVENT_BURST);
        budget.left = 0;
        assert_eq!(budget.refilled(11 * EVENT_COST), budget);
    }
}
