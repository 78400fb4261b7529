//! Words with one bit per limit, by the value of a field of a packet.

use crate::{
    abi::rules::{ANY, Limit, NONE},
    pod::pod,
};

/// Bits of limits by the value of one byte of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ByByte {
    /// Limits that match packets without the byte.
    pub without: u64,
    /// Limits that match packets with the byte, by its value.
    pub with: [u64; 256],
}

pod!(ByByte: without with);

impl ByByte {
    /// Bits of the limits that may match a field with this value, of which `byte` counts: all if it cannot be seen.
    #[inline(always)]
    pub(super) const fn of(&self, value: u32, byte: u32) -> u64 {
        match value {
            ANY => u64::MAX,
            NONE => self.without,
            _ => self.with[(byte & 0xff) as usize],
        }
    }

    /// Adds a limit: to all values, or to those that hold.
    pub(super) fn add(&mut self, bit: u64, everything: bool, holds: impl Fn(u32) -> bool) {
        if everything {
            self.without |= bit;
        }
        for (value, bits) in (0..).zip(&mut self.with) {
            if everything || holds(value) {
                *bits |= bit;
            }
        }
    }
}

/// The most blocks of 256 ports that are told apart port by port.
pub const SPLIT_MAX: usize = 8;

/// Bits of limits by a port: by its upper byte, and within some blocks of 256 ports by its lower byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ByPort {
    /// By the upper byte.
    pub block: ByByte,
    /// For each block, 1 + the index of its element in `port`, or 0.
    pub split: [u8; 256],
    /// By the lower byte.
    pub port: [[u64; 256]; SPLIT_MAX],
}

pod!(ByPort: block split port);

impl ByPort {
    /// Bits of the limits that may match this port: all if it cannot be seen.
    #[inline(always)]
    pub(super) const fn of(&self, port: u32) -> u64 {
        if port < NONE {
            let split = self.split[(port >> 8 & 0xff) as usize] as usize;
            if split != 0 {
                return self.port[(split - 1) % SPLIT_MAX][(port & 0xff) as usize];
            }
        }
        self.block.of(port, port >> 8)
    }

    /// Adds the ranges of the limits, the first of which has bit 0. Returns the limits that the bits do not decide,
    /// because too many blocks have several answers.
    pub(super) fn add(&mut self, limits: &[Limit], field: usize) -> u64 {
        if limits.iter().all(|limit| limit.matches.count(field) == 0) {
            // Nobody looks these bits up.
            return 0;
        }
        let (mut splits, mut undecided) = (0_u8, 0);
        let holds = |port: u32| {
            let limits = (0..).zip(limits);
            limits.fold(0, |bits: u64, (index, limit)| {
                let ranges = limit.matches.ranges(field);
                let has = ranges.is_empty() || ranges.iter().any(|range| range.contains(port));
                bits | u64::from(has) << index
            })
        };
        self.block.without = (0..).zip(limits).fold(0, |bits, (index, limit)| {
            bits | u64::from(limit.matches.ranges(field).is_empty()) << index
        });
        for (block, first) in (0..=0xff_u32).map(|block| (block as usize, block << 8)) {
            let ports = || (first..=first | 0xff).map(holds);
            let (any, all) =
                ports().fold((0, u64::MAX), |(any, all), bits| (any | bits, all & bits));
            self.block.with[block] = any;
            if any == all {
                continue;
            }
            match self.port.get_mut(usize::from(splits)) {
                Some(place) => {
                    for (place, bits) in place.iter_mut().zip(ports()) {
                        *place = bits;
                    }
                    splits += 1;
                    self.split[block] = splits;
                }
                None => undecided |= any & !all,
            }
        }
        undecided
    }
}
