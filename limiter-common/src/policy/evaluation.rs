//! State of the full path for one packet: the packet's fields and the decisions so far.

use super::{Environment, PacketInfo, payload::Payload, verdict::Reason};
use crate::{
    abi::{
        Constants,
        rules::{
            ANY, LIMITS_MAX, NEEDS_DESTINATION, NEEDS_HEADER, NEEDS_PAYLOAD, NEEDS_PAYLOAD_LENGTH,
            NONE, WHOLE,
        },
    },
    pod::{Pod as _, pod},
    table::key::{Address, SourceKey, Words},
};

/// The charge of a limit, as its check has planned it for the same packet; and this CPU's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Plan {
    /// The bucket's key.
    pub key: SourceKey,
    /// The TAT that was read.
    pub tat: u64,
    /// The TAT after the charge; 0: nothing is planned.
    pub charged: u64,
    /// The [`super::Environment::entry_number`] of the bucket. The entry may have changed hands since.
    pub number: u32,
    /// 0, for the alignment.
    pub reserved: u32,
    /// Ticks left of the CPU's lease of the interface's bucket; see [`crate::abi::rules::Limit::lease`]. Like `pending`,
    /// it outlives the packet.
    pub lease: u64,
    /// Packets paid from leases that the bucket does not count yet.
    pub pending: u64,
}

pod!(Plan: key tat charged number reserved lease pending);

/// State of one packet. Global functions of the kernel program get it by pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Evaluation {
    /// Arrival time of the packet, in nanoseconds; [`super::bucket::NOT_READ`] until it is needed.
    pub now: u64,
    /// Latest arrival time that the checks of several limits have assumed, in nanoseconds.
    pub latest: u64,
    /// Bytes of the frame; of several merged ones, their [`size`].
    pub length: u64,
    /// Limits that match the packet, by index.
    pub matching: u64,
    /// Limits that the packet is charged to.
    pub charged: u64,
    /// Limits of these that a lease has paid for.
    pub leased: u64,
    /// Limits whose bucket has refused a lease.
    pub unleased: u64,
    /// Limits in shadow that would drop the packet.
    pub would_drop: u64,
    /// Limits that need a new bucket for the packet.
    pub new: u64,
    /// Ticks until the packet leaves, plus one: the longest of its limits' delays; 0: no limit decides when it leaves.
    pub delay: u64,
    /// The [`super::client::number`] of the client, if control traffic of the link is exempt.
    pub client: u64,
    /// The fields that have been parsed of the packet.
    pub info: PacketInfo,
    /// The first bytes of the payload, if limits use it.
    pub payload: Payload,
    /// Lists that decide about the packet's peer; after that decision, lists that the source is on.
    pub lists: u32,
    /// Lists that the destination is on, if limits use it.
    pub destination_lists: u32,
    /// Index of the limit that refused the packet.
    pub refused_by: u32,
    /// Number of that limit's reason.
    pub refused: u32,
    /// 1: the limit that refused the packet has counted it.
    pub counted: u32,
    /// 1: the packet has taken a new-source token. One token is enough for all its new buckets.
    pub paid: u32,
    /// The budget of the packet's source, if it is new to a limit that can refuse it.
    pub budget: u32,
    /// [`super::payload::length`], if limits use it.
    pub payload_length: u32,
    /// 1: limits are checked before they are charged, and `plans` are valid for this packet.
    pub checked: u32,
    /// 1: the packet passes although a limit refused it.
    pub passed: u32,
    /// The packet's VLAN, or [`NONE`], if limits use it.
    pub vlan: u32,
    /// 0, for the alignment.
    pub reserved: u32,
    /// For each matching limit with keys of two addresses, the words of the key.
    pub pairs: [Words; LIMITS_MAX as usize],
    /// For each limit that is checked or charged, the packet's cost.
    pub costs: [u64; LIMITS_MAX as usize],
    /// For each checked limit, its plan.
    pub plans: [Plan; LIMITS_MAX as usize],
}

pod!(Evaluation: now latest length matching charged leased unleased would_drop new delay client info payload lists
    destination_lists refused_by refused counted paid budget payload_length checked passed vlan reserved pairs costs plans);

impl Evaluation {
    /// No packet.
    pub const NONE: Self = Self {
        info: PacketInfo::of(Address::ZEROS),
        ..Self::ZEROS
    };

    /// Resets the state for a packet of `length` bytes. Other fields stay unchanged, because they are written before they
    /// are read.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "two values of 32 bits")]
    pub fn begin<E: Environment>(&mut self, environment: &E, length: u64) {
        // Hides the values from the compiler, which would otherwise copy a constant or call memset. On BPF, memset writes
        // byte by byte and costs as much as a list lookup.
        let (zero, any) = (E::hidden(0) as u32, E::hidden(ANY.into()) as u32);
        self.length = length;
        let info = &mut self.info;
        for word in [
            &mut self.now,
            &mut self.charged,
            &mut self.leased,
            &mut self.unleased,
            &mut self.would_drop,
            &mut self.new,
        ] {
            *word = zero.into();
        }
        if E::IN_STACK {
            self.delay = zero.into();
        }
        // Fields that nothing reads if no limit uses them.
        let Constants { needs, egress, .. } = environment.constants();
        if needs & NEEDS_DESTINATION | egress != 0 {
            info.destination.words = [zero.into(); 2];
            info.destination.family = zero;
        }
        if needs & NEEDS_HEADER != 0 {
            (info.ttl, info.dscp, info.icmp_type) = (zero, zero, any);
        }
        for word in [
            &mut self.lists,
            &mut self.refused_by,
            &mut self.refused,
            &mut self.counted,
            &mut self.paid,
            &mut self.budget,
            &mut self.checked,
            &mut info.control,
            &mut info.length,
        ] {
            *word = zero;
        }
        for word in [
            &mut info.protocol,
            &mut info.flags,
            &mut info.source_port,
            &mut info.destination_port,
        ] {
            *word = any;
        }
        info.fragment = WHOLE;
    }

    /// True if all fields that limits match on can be seen. Fields that no limit uses may count as unseen.
    #[inline(always)]
    pub(super) const fn is_seen(&self, needs: u32) -> bool {
        let info = &self.info;
        let unread = info.protocol == ANY || info.destination_port == ANY || info.flags == ANY;
        let icmp = needs & NEEDS_HEADER != 0 && info.icmp_type == ANY;
        let payload = needs & NEEDS_PAYLOAD != 0 && self.payload.hidden != 0;
        let measured = needs & NEEDS_PAYLOAD_LENGTH != 0 && self.payload_length == ANY;
        !(unread || icmp || payload || measured || info.length == ANY)
    }

    /// The VLAN for keys; 0 if the packet has none.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "of twelve bits")]
    pub(super) const fn key_vlan(&self) -> u16 {
        if self.vlan == NONE {
            0
        } else {
            self.vlan as u16
        }
    }

    /// Makes an error about a connection count as a packet of this connection; see [`PacketInfo::count_as`].
    #[inline(always)]
    pub const fn count_as(&mut self, of_connection: &PacketInfo) {
        self.info.count_as(of_connection);
        self.payload.length = 0;
        self.payload.hidden = 1;
        self.payload_length = ANY;
    }

    /// The plan for the limit with this index, if it was checked.
    #[inline(always)]
    pub(super) fn plan(&self, index: u32) -> Option<&Plan> {
        self.plans.get(index as usize).filter(|_| self.checked != 0)
    }

    /// Stores the decision of a limit that refuses the packet.
    #[inline(always)]
    pub(super) fn note(&mut self, index: u32, reason: Reason) {
        self.refused_by = index;
        self.refused = reason as u32;
    }

    /// The limit that the packet is over, or the first of several in shadow, and the bits of all these limits. Valid
    /// only if the packet is over a limit.
    #[inline(always)]
    pub const fn over(&self) -> (u32, u64) {
        let limits = match self.would_drop {
            0 => 1 << self.refused_by,
            several => several,
        };
        (self.refused_by, limits)
    }
}
