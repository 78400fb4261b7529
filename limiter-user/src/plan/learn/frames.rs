//! Learns from the frames of a capture.

use limiter_common::{
    abi::learn::{Flow, Totals},
    policy::{Parsed, parse},
    table::Seed,
};

use super::{Bounds, Sampler, Seen, Watched};
use crate::plan::capture::Frame;

/// The traffic learnt from the frames so far.
#[derive(Debug)]
pub struct FromFrames {
    sampler: Sampler,
    totals: Totals,
    first: Option<u64>,
    last: u64,
}

impl FromFrames {
    /// Creates an empty state.
    pub fn new(seed: Seed, bounds: Bounds) -> Self {
        Self {
            sampler: Sampler::new(seed, bounds),
            totals: Totals::default(),
            first: None,
            last: 0,
        }
    }

    /// Adds a frame that arrived at `time` (nanoseconds), not before the previous frame.
    pub fn see(&mut self, time: u64, frame: &Frame) {
        self.first.get_or_insert(time);
        self.last = self.last.max(time);
        let mut bytes = &frame.bytes[..];
        let parsed = parse(&mut bytes).with_arp(false);
        let total = match (parsed, parsed.info(&mut bytes, true)) {
            (_, Some(info)) => {
                self.sampler.see(&Seen {
                    time,
                    spread: 0,
                    flow: Flow::of(&info),
                    packets: 1,
                });
                &mut self.totals.seen
            }
            (Parsed::Malformed | Parsed::TooManyTags, _) => &mut self.totals.malformed,
            _ => &mut self.totals.not_ip,
        };
        total.packets += 1;
        total.bytes += frame.length;
    }

    /// Returns all traffic.
    pub fn finish(self) -> Watched {
        let begun = self.first.unwrap_or(0);
        Watched {
            sampler: self.sampler,
            totals: self.totals,
            begun,
            duration: self.last.saturating_sub(begun),
        }
    }
}
