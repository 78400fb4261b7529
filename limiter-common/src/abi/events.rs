//! Events of `watch`: the records that switch it on, the budget of each CPU, and the event of one packet.

use super::BanCounts;
use crate::{
    pod::pod,
    policy::protocols::{self, EtherType},
    table::key::Words,
};

/// The most processes that watch at once.
pub const WATCHERS: u32 = 16;

/// All watches. User space writes word by word; the program reads them when it drops a packet, and, with
/// [`super::Constants::passed`], when one passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Watches {
    /// A bit for each watch that is on. 0: nobody watches.
    pub active: u64,
    /// The watches, each of one process, by their places.
    pub watches: [Watch; WATCHERS as usize],
}

pod!(Watches: active watches);

/// The record that switches questions of the program on: nearly every packet reads its first words, in one cache line.
/// User space maps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Switches {
    /// Numbers of bans. 0: no packet's peer is looked up among them.
    pub bans: BanCounts,
    /// The watches.
    pub watches: Watches,
}

pod!(Switches: bans watches);

/// A watching process, its deadline and its filter. Fields other than [`Self::until`], [`Self::slot`] and
/// [`Self::sample`] are written only while `until` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Watch {
    /// End of the watch, in nanoseconds of the monotonic clock; 0: no watch. The watching process extends it while it
    /// runs.
    pub until: u64,
    /// Number of the watch session, copied to [`Event::session`].
    pub session: u64,
    /// Wanted reasons: one bit for each, at the reason's number.
    pub reasons: u64,
    /// Slot of the wanted limit, or [`ANY_SLOT`].
    pub slot: u64,
    /// Family of the wanted sources; 0 for all, including packets without a source.
    pub family: u64,
    /// Bits of the source address that are compared.
    pub mask: Words,
    /// Values of these bits.
    pub address: Words,
    /// Id of the watching process. Above it, from [`SNAP_SHIFT`] on: the number of bytes that it wants of each packet,
    /// at most [`SNAP_MAX`]. They follow the event.
    pub process: u64,
    /// Greatest random number of a packet in the sample, of 32 bits: [`EVERY`] for all packets.
    pub sample: u64,
}

pod!(Watch: until session reasons slot family mask address process sample);

/// Value of [`Watch::sample`] for all wanted packets.
pub const EVERY: u64 = u32::MAX as u64;

/// Value of [`Watch::slot`] for all packets, also those that no limit has decided.
pub const ANY_SLOT: u64 = u64::MAX;

/// Place of the number of wanted bytes in [`Watch::process`].
pub const SNAP_SHIFT: u32 = 32;
/// Most bytes of a packet that follow an event: a frame of the usual length.
pub const SNAP_MAX: u32 = 1_536;

/// State of one watch on one CPU. Only that CPU writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Watched {
    /// Events that the CPU may emit now.
    pub budget: Budget,
    /// `jiffies` at the last reading of the clock.
    pub jiffy: u64,
    /// [`Watch::until`] at that reading.
    pub until: u64,
    /// Wanted packets of the sample that were not emitted.
    pub lost: u64,
}

pod!(Watched: budget jiffy until lost);

/// Budget of events of one CPU: a token bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Budget {
    /// Events left.
    pub left: u64,
    /// Time of the last refill, in nanoseconds.
    pub since: u64,
}

pod!(Budget: left since);

/// Nanoseconds per event of one CPU: 1,000 events per second.
pub const EVENT_COST: u64 = 1_000_000;

/// Events that one CPU may emit at once.
pub const EVENT_BURST: u64 = 256;

impl Budget {
    /// The budget refilled up to `now`, in nanoseconds.
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

/// Bytes of a watcher's ring buffer: a power of two, and whole pages for page sizes up to 64 KiB.
pub const EVENTS_BYTES: u32 = 128 * 1024;

/// One packet that was dropped, or would have been without shadow, or passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// Time of the verdict, in nanoseconds of the monotonic clock.
    pub nanoseconds: u64,
    /// [`Watch::session`] at that time.
    pub session: u64,
    /// Source address of the packet.
    pub source: Words,
    /// [`crate::table::key::IPV4`], [`crate::table::key::IPV6`], or 0 if unknown.
    pub family: u32,
    /// Transport protocol, [`ARP`], or [`crate::abi::rules::ANY`] if unknown.
    pub protocol: u32,
    /// Destination port, [`crate::abi::rules::ANY`] or [`crate::abi::rules::NONE`].
    pub destination_port: u32,
    /// Slot of the limit that the packet is over, or of the first one that admitted it, or [`crate::abi::NO_LIMIT`].
    pub slot: u32,
    /// Bytes of the frame; of merged packets, those of all.
    pub length: u32,
    /// Number of the [`crate::policy::verdict::Reason`].
    pub reason: u32,
    /// 1: the packet passed because of shadow.
    pub would_drop: u32,
    /// 1: [`Self::destination`] is known.
    pub has_destination: u32,
    /// Destination address of the packet.
    pub destination: Words,
    /// Source port, [`crate::abi::rules::ANY`] or [`crate::abi::rules::NONE`].
    pub source_port: u32,
    /// TCP flags, [`crate::abi::rules::ANY`] or [`crate::abi::rules::NONE`].
    pub flags: u32,
    /// [`Watch::sample`] at that time.
    pub sample: u32,
    /// Number of packets: more than one if the kernel has merged them.
    pub packets: u32,
}

pod!(Event: nanoseconds session source family protocol destination_port slot length reason would_drop
    has_destination destination source_port flags sample packets);

/// [`Event::protocol`] of ARP: its EtherType, which no transport protocol has as its number.
pub const ARP: u32 = protocols::number(EtherType::Arp);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_budget_refills_with_time_up_to_its_burst() {
        let mut budget = Budget::default().refilled(10 * EVENT_COST);
        assert_eq!(budget.left, 10);
        budget = budget.refilled(10 * EVENT_COST + EVENT_COST - 1);
        assert_eq!(budget.left, 10, "a part of an event adds none");
        budget = budget.refilled(11 * EVENT_COST);
        assert_eq!(budget.left, 11, "and is not lost");
        budget = budget.refilled(EVENT_COST);
        assert_eq!(budget.left, 11, "a clock that was set back");
        assert_eq!(budget.refilled(u64::MAX).left, EVENT_BURST);
        budget.left = 0;
        assert_eq!(budget.refilled(11 * EVENT_COST), budget);
    }
}
