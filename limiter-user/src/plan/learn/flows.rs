//! Packets of open TCP connections in a capture, which does not show the host's sockets.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
};

use limiter_common::policy::{PacketInfo, protocols::TCP};

/// The most flows of a generation. Two generations together need at most about 20 MiB.
const FLOWS_MAX: usize = 1 << 19;

/// The flows of a capture so far, in bounded memory: the older half is forgotten at once.
#[derive(Debug, Default)]
pub struct Flows {
    hasher: RandomState,
    recent: HashSet<u64>,
    older: HashSet<u64>,
}

impl Flows {
    /// Returns true for a packet that limits with `established` exempt will not see: a segment of a flow that the capture has
    /// had a packet of before, or the answer to a SYN of the host's own. The first segment of a flow is none, because it may
    /// be a stray one.
    pub fn is_connection(&mut self, info: &PacketInfo) -> bool {
        const SYN: u32 = 0x02;
        if info.protocol != TCP || !info.has_ports() {
            return false;
        }
        let (from, destination) = (info.source.words, info.destination.words);
        let flow = self.hasher.hash_one((from, destination, info.flow()));
        let is_known = self.recent.contains(&flow) || self.older.contains(&flow);
        if self.recent.len() >= FLOWS_MAX {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(flow);
        !info.opens_connection() && (is_known || info.flags & SYN != 0)
    }
}
