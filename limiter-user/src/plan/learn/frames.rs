//! Learns from the frames of a capture.

use limiter_common::{
    abi::learn::{Flow, Totals},
    policy::{Parsed, parse},
    table::Seed,
};

use super::{Bounds, Sampler, Seen, Watched};
use crate::plan::capture::Frame;

impl Watched {
    /// Creates a state without traffic.
    pub fn new(seed: Seed, bounds: Bounds) -> Self {
        Self {
            sampler: Sampler::new(seed, bounds),
            totals: Totals::default(),
            begun: u64::MAX,
            duration: 0,
        }
    }

    /// Adds a frame that arrived at `time` (nanoseconds), not before the previous frame.
    pub fn see(&mut self, time: u64, frame: &Frame) {
        self.begun = self.begun.min(time);
        self.duration = time - self.begun;
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
}
