//! State of the full path for one packet: the packet's data, and the decisions so far.

use core::hint::black_box;

use super::{PacketInfo, verdict::Reason};
use crate::{abi::rules::LIMITS_MAX, table::key::Address};

/// The functions that the verifier checks by themselves get it by pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Evaluation {
    /// Time at which the packet came, in nanoseconds; [`super::bucket::NOT_READ`] until the time must be known.
    pub now: u64,
    /// Bytes of the frame.
    pub length: u64,
    /// Limits that match it, by index.
    pub matching: u64,
    /// Limits that it has been charged to.
    pub charged: u64,
    /// Limits in shadow that would have dropped it.
    pub would_drop: u64,
    /// Limits that it needs a new bucket of.
    pub new: u64,
    /// The fields that have been parsed of the packet.
    pub info: PacketInfo,
    /// Lists that decide about its source.
    pub lists: u32,
    /// Index of the limit that refused it.
    pub refused_by: u32,
    /// Number of the reason of that limit.
    pub refused: u32,
    /// 1: the limit that refused it has counted it already.
    pub counted: u32,
    /// 1: a token of the new-source limit is taken. One does for all buckets that are made for the packet.
    pub paid: u32,
    /// 1: limits are checked before they are charged, and `places` are of this packet.
    pub checked: u32,
    /// 1: a packet that a limit refuses passes, and is counted so.
    pub passed: u32,
    /// Number of the entry of each limit's bucket, as [`super::Engine::place_of`] returns it, of limits that were
    /// checked. An entry may have changed hands since.
    pub places: [u32; LIMITS_MAX as usize],
}

impl Evaluation {
    /// No packet.
    pub const NONE: Self = Self {
        now: 0,
        length: 0,
        matching: 0,
        charged: 0,
        would_drop: 0,
        new: 0,
        info: PacketInfo::of(Address {
            words: [0; 2],
            family: 0,
            reserved: 0,
        }),
        lists: 0,
        refused_by: 0,
        refused: 0,
        counted: 0,
        paid: 0,
        checked: 0,
        passed: 0,
        places: [0; LIMITS_MAX as usize],
    };

    /// Begins with a packet of which only the length is known. Places stay unchanged: they are read only after they are
    /// written.
    #[inline(always)]
    pub fn begin(&mut self, length: u64) {
        // The compiler does not see the value. It would call memset, which goes byte by byte on BPF, and costs as much
        // as the lookup of a list.
        let zero = black_box(0_u32);
        self.length = length;
        self.info = Self::NONE.info;
        for word in [
            &mut self.now,
            &mut self.matching,
            &mut self.charged,
            &mut self.would_drop,
            &mut self.new,
        ] {
            *word = zero.into();
        }
        for word in [
            &mut self.lists,
            &mut self.refused_by,
            &mut self.refused,
            &mut self.counted,
            &mut self.paid,
            &mut self.checked,
            &mut self.passed,
        ] {
            *word = zero;
        }
    }

    /// The place of the bucket of the limit with this index; 0: not known.
    #[inline(always)]
    pub(super) fn place(&self, index: u32) -> u32 {
        match self.places.get(index as usize) {
            Some(place) if self.checked != 0 => *place,
            _ => 0,
        }
    }

    /// Notes the decision of a limit that refuses the packet.
    #[inline(always)]
    pub(super) fn note(&mut self, index: u32, reason: Reason) {
        self.refused_by = index;
        self.refused = reason as u32;
    }

    /// The limit that the packet is over, or the first of several in shadow; and bits of all of them. Only if it is
    /// over one.
    #[must_use]
    #[inline(always)]
    pub const fn over(&self) -> (u32, u64) {
        let limits = match self.would_drop {
            0 => 1 << self.refused_by,
            several => several,
        };
        (self.refused_by, limits)
    }
}
