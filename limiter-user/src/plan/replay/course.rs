//! The results of a replay, counted by reason, limit and source.

use limiter_common::{
    abi::counters::{Count as KernelCount, Counters, LimitCounters},
    policy::{Parsed, parse, verdict::Reason},
    table::key::Address,
};
use limiter_config::{Limit, compile::FIRST_SLOT};

use super::{
    Compiled,
    model::Model,
    sources::{SourceCounters, Sources},
};
use crate::{
    observe::{self, Count, Drops, Passes, Verdicts},
    plan::capture::Packet,
};

/// The result of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// All packets by verdict; `seen` is the whole capture.
    pub verdicts: Verdicts,
    /// Packets that are not IP; part of `passed`.
    pub not_ip: u64,
    /// Packets of the other direction, according to the capture; part of `passed`. Limits do not apply to them.
    pub other_direction: Count,
    /// Packets whose direction the capture does not say.
    pub undirected: u64,
    /// Seconds from the first packet to the last, according to the capture.
    pub seconds: f64,
    /// Dropped packets by reason.
    pub drops: Drops,
    /// Packets that passed without being charged, by reason.
    pub passes: Passes,
    /// The limits, and their decisions.
    pub limits: Vec<(Limit, LimitCounters)>,
    /// Sources, most dropped first, then most passed.
    pub sources: Vec<(String, SourceCounters)>,
    /// Packets of sources that did not fit into memory.
    pub of_others: u64,
    /// Truncated packets. Fields that the capture lacks are charged as if they matched. A packet without its IP header
    /// counts as malformed.
    pub truncated: u64,
}

/// The counters of the packets so far.
pub(super) struct Course<'a> {
    compiled: &'a Compiled,
    counters: Counters,
    other_direction: KernelCount,
    undirected: u64,
    sources: Sources,
    truncated: u64,
    /// Times of the first packet and of the last, in the capture.
    times: Option<(u64, u64)>,
}

impl<'a> Course<'a> {
    pub fn new(compiled: &'a Compiled) -> Self {
        Self {
            compiled,
            counters: Counters::default(),
            other_direction: KernelCount::default(),
            undirected: 0,
            sources: Sources::new(&compiled.settings),
            truncated: 0,
            times: None,
        }
    }

    /// Counts a packet. There is no reason for packets of the other direction. Returns the packet's source.
    pub fn count(&mut self, packet: &Packet, reason: Option<Reason>) -> Option<Address> {
        let frame = &packet.frame;
        let (begin, last) = self.times.get_or_insert((packet.captured_at, 0));
        *begin = (*begin).min(packet.captured_at);
        *last = (*last).max(packet.captured_at);
        self.undirected += u64::from(packet.direction.is_none());
        let packet_count = KernelCount {
            packets: 1,
            bytes: frame.length,
        };
        let source = match parse(&mut &frame.bytes[..]) {
            Parsed::Arp(_) if !self.compiled.settings.exempt.control => None,
            parsed => parsed.source(),
        };
        let Some(reason) = reason else {
            self.other_direction = self.other_direction + packet_count;
            return source;
        };
        let counted = &mut self.counters.by_reason[reason as usize];
        *counted = *counted + packet_count;
        self.truncated += u64::from(packet.is_cut);
        if let Some(source) = &source {
            self.sources.count(source, reason);
        }
        source
    }

    pub fn finish(self, model: &Model) -> Outcome {
        let mut verdicts = observe::verdicts(&self.counters);
        for count in [&mut verdicts.seen, &mut verdicts.passed] {
            count.packets += self.other_direction.packets;
            count.bytes += self.other_direction.bytes;
        }
        let (sources, of_others) = self.sources.finish();
        let (begin, last) = self.times.unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
        let seconds = (last - begin) as f64 / 1e9;
        Outcome {
            verdicts,
            not_ip: self.counters.by_reason[Reason::NotIp as usize].packets,
            other_direction: self.other_direction.into(),
            undirected: self.undirected,
            seconds,
            drops: Drops::new(&self.counters),
            passes: Passes::new(&self.counters),
            limits: limits(model, self.compiled, &self.counters),
            sources,
            of_others,
            truncated: self.truncated,
        }
    }
}

fn limits(model: &Model, compiled: &Compiled, all: &Counters) -> Vec<(Limit, LimitCounters)> {
    let limits = compiled.settings.all_limits();
    let counted = (FIRST_SLOT..).zip(limits).map(|(slot, limit)| {
        let counters = if compiled.config.fast_path == 0 {
            model.limit(slot)
        } else {
            observe::of_the_only_limit(all)
        };
        (limit, counters)
    });
    counted.collect()
}
