//! Frames of a capture, as the program that watches would have told of them.

use limiter_common::{
    counters::Count,
    learn::{Flow, HIDDEN, MASK, Totals},
    rules::ANY,
    table::Seed,
};

use super::{Bounds, Sampler, Seen, Watched};
use crate::replay::packet::{Facts, Parsed, parse};

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
pub fn look(frame: &[u8]) -> What {
    /// Flags that tell a segment that opens a connection from others, FIN, SYN, RST, ACK; and what they are in one.
    const LOOKED_AT: u32 = 1 | 2 | 4 | 16;
    const SYN: u32 = 2;
    const TCP: u32 = 6;

    let parsed = parse(frame, false);
    let Some(facts) = Facts::read(&parsed, true) else {
        return match parsed {
            Parsed::Malformed | Parsed::TooManyTags => What::Malformed,
            _ => What::NotIp,
        };
    };
    let source = facts.source;
    let masked = MASK.key(0, &source, 0).address;
    What::Ip(if facts.protocol == ANY {
        Flow::new(masked, source.family, HIDDEN, 0, false)
    } else {
        // Flags that a packet does not have, or that cannot be seen, are no SYN alone.
        let opens = facts.protocol == TCP && facts.flags & LOOKED_AT == SYN;
        let port = facts.key_port();
        Flow::new(masked, source.family, facts.protocol, port, opens)
    })
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
