//! Frames of a capture, as the program that watches would have told of them.

use limiter_common::{
    abi::{
        counters::Count,
        learn::{Flow, Totals},
    },
    policy::{Parsed, parse},
    table::Seed,
};

use super::{Bounds, Sampler, Seen, Watched};

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// IP, from a source to a service.
    Ip(Flow),
    /// IP or a VLAN tag that is cut short or impossible, or too many tags.
    Malformed,
    /// Anything else.
    NotIp,
}

/// Looks at a frame, from the Ethernet header on, which may be cut off anywhere.
#[must_use]
pub fn look(mut frame: &[u8]) -> What {
    let parsed = parse(&mut frame).with_arp(false);
    match (parsed, parsed.info(&mut frame, true)) {
        (_, Some(info)) => What::Ip(Flow::of(&info)),
        (Parsed::Malformed | Parsed::TooManyTags, _) => What::Malformed,
        _ => What::NotIp,
    }
}

/// What is learnt from frames, one after the other.
#[derive(Debug)]
pub struct FromFrames {
    sampler: Sampler,
    totals: Totals,
    first: Option<u64>,
    last: u64,
}

impl FromFrames {
    /// Nothing yet.
    #[must_use]
    pub fn new(seed: Seed, bounds: Bounds) -> Self {
        Self {
            sampler: Sampler::new(seed, bounds),
            totals: Totals::default(),
            first: None,
            last: 0,
        }
    }

    /// Takes in a frame of `length` bytes, the first of which are `frame`, that came at `time` (nanoseconds, no
    /// earlier than the one before).
    pub fn see(&mut self, time: u64, frame: &[u8], length: u64) {
        self.first.get_or_insert(time);
        self.last = self.last.max(time);
        let count = Count {
            packets: 1,
            bytes: length,
        };
        match look(frame) {
            What::Ip(flow) => {
                self.totals.seen = self.totals.seen + count;
                self.sampler.see(&Seen {
                    time,
                    spread: 0,
                    flow,
                    count,
                });
            }
            What::Malformed => self.totals.malformed = self.totals.malformed + count,
            What::NotIp => self.totals.not_ip = self.totals.not_ip + count,
        }
    }

    /// All of them.
    #[must_use]
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
