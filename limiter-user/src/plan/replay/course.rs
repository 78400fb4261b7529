//! The results of a replay, counted by reason, limit and source.

use limiter_common::{
    abi::counters::{Count, Counters, LimitCounters},
    policy::{Parsed, parse, verdict::Reason},
};
use limiter_config::{Limit, compile::FIRST_SLOT};

use super::{
    Compiled,
    model::Model,
    sources::{SourceCounters, Sources},
};
use crate::{
    observe::{self, Drops, Verdicts},
    plan::capture::Packet,
};

/// The result of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// All packets by verdict; `seen` is the whole capture.
    pub verdicts: Verdicts,
    /// Packets that are not IP; part of `passed`.
    pub not_ip: u64,
    /// Packets that the host sent, according to the capture; part of `passed`. Limits do not apply to them.
    pub outgoing: u64,
    /// Seconds from the first packet to the last.
    pub seconds: f64,
    /// Dropped packets by reason.
    pub drops: Drops,
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
    outgoing: Count,
    sources: Sources,
    truncated: u64,
    begin: u64,
    last: u64,
}

impl<'a> Course<'a> {
    pub fn new(compiled: &'a Compiled, begin: u64) -> Self {
        Self {
            compiled,
            counters: Counters::default(),
            outgoing: Count::default(),
            sources: Sources::new(&compiled.settings.limits),
            truncated: 0,
            begin,
            last: begin,
        }
    }

    pub fn count(&mut self, packet: &Packet, reason: Option<Reason>) {
        let Packet { frame, time, .. } = packet;
        self.last = *time;
        let packet_count = Count {
            packets: 1,
            bytes: frame.length,
        };
        let Some(reason) = reason else {
            self.outgoing = self.outgoing + packet_count;
            return;
        };
        let counted = &mut self.counters.by_reason[reason as usize];
        *counted = *counted + packet_count;
        self.truncated += u64::from(packet.is_cut);
        let source = match parse(&mut &frame.bytes[..]) {
            Parsed::Arp(_) if !self.compiled.settings.exempt.control => None,
            parsed => parsed.source(),
        };
        if let Some(source) = source {
            self.sources.count(&source, reason);
        }
    }

    pub fn finish(self, model: &Model) -> Outcome {
        let mut verdicts = observe::verdicts(&self.counters);
        for count in [&mut verdicts.seen, &mut verdicts.passed] {
            count.packets += self.outgoing.packets;
            count.bytes += self.outgoing.bytes;
        }
        let (sources, of_others) = self.sources.finish();
        #[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
        let seconds = (self.last - self.begin) as f64 / 1e9;
        Outcome {
            verdicts,
            not_ip: self.counters.by_reason[Reason::NotIp as usize].packets,
            outgoing: self.outgoing.packets,
            seconds,
            drops: Drops::new(&self.counters),
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
        let counters = if compiled.config.plain == 0 {
            model.limit(slot)
        } else {
            observe::of_the_only_limit(all)
        };
        (limit, counters)
    });
    counted.collect()
}
