//! The results of a replay, counted by reason, limit and source.

use limiter_common::{
    abi::counters::{Count, Counters},
    policy::{parse, verdict::Reason},
};

use super::{Compiled, Engine, FRAME_MAX, Result, sources::Sources};
use crate::{
    config::compile::FIRST_SLOT,
    observe::{
        self,
        replay::{self, ReplayedLimit},
    },
    plan::capture::Packet,
};

const MALFORMED: [Reason; 3] = [
    Reason::Malformed,
    Reason::MalformedPassed,
    Reason::MalformedWouldDrop,
];

/// The counters of the packets so far.
pub(super) struct Course {
    counters: Counters,
    outgoing: Count,
    sources: Sources,
    control: bool,
    /// True if a limit needs the transport header.
    transport: bool,
    /// Truncated packets: the capture has too little of them for the limits.
    cut_short: u64,
    first: Option<u64>,
    last: u64,
}

impl Course {
    pub fn new(compiled: &Compiled) -> Self {
        Self {
            counters: Counters::default(),
            outgoing: Count::default(),
            sources: Sources::new(&compiled.settings.limits),
            control: compiled.settings.exempt.control,
            transport: compiled.config.transport != 0,
            cut_short: 0,
            first: None,
            last: 0,
        }
    }

    pub fn count(&mut self, packet: &Packet, reason: Option<Reason>) {
        let Packet { frame, time, .. } = packet;
        self.first.get_or_insert(*time);
        self.last = *time;
        let one = Count {
            packets: 1,
            bytes: frame.length,
        };
        let Some(reason) = reason else {
            self.outgoing = self.outgoing + one;
            return;
        };
        let counted = &mut self.counters.by_reason[reason as usize];
        *counted = *counted + one;
        let mut bytes = &frame.bytes[..];
        let parsed = parse(&mut bytes).with_arp(self.control);
        let info = parsed.info(&mut bytes, self.transport);
        let hidden = self.transport && info.is_some_and(|info| info.is_hidden());
        self.cut_short += u64::from((MALFORMED.contains(&reason) || hidden) && packet.is_cut);
        if let Some(info) = info {
            self.sources.count(&info.source, reason);
        }
    }

    pub fn finish(self, engine: &Engine, compiled: &Compiled) -> Result<replay::Replay> {
        let mut verdicts = observe::verdicts(&self.counters);
        for count in [&mut verdicts.seen, &mut verdicts.passed] {
            count.packets += self.outgoing.packets;
            count.bytes += self.outgoing.bytes;
        }
        let (sources, other_sources) = self.sources.finish();
        #[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
        let seconds = (self.last - self.first.unwrap_or(self.last)) as f64 / 1e9;
        Ok(replay::Replay {
            engine: engine.name(),
            verdicts,
            not_ip: self.counters.by_reason[Reason::NotIp as usize].into(),
            outgoing: self.outgoing.into(),
            seconds,
            drops: observe::Drops::new(&self.counters),
            limits: limits(engine, compiled, &self.counters)?,
            sources,
            other_sources,
            cut_short_packets: self.cut_short,
        })
    }
}

fn limits(engine: &Engine, compiled: &Compiled, all: &Counters) -> Result<Vec<ReplayedLimit>> {
    let limits = compiled.settings.all_limits();
    let counted = (FIRST_SLOT..).zip(limits).map(|(slot, limit)| {
        let counters = if compiled.config.plain == 0 {
            engine.limit(slot)?
        } else {
            observe::of_the_only_limit(all)
        };
        Ok(ReplayedLimit {
            rate: limit.rate.to_string(),
            burst: limit.burst(FRAME_MAX)?.to_string(),
            key: limit.key.to_string(),
            passed: (counters.admitted + counters.would_drop).into(),
            dropped: counters.dropped.into(),
            would_drop: counters.would_drop.into(),
            name: limit.name,
        })
    });
    counted.collect()
}
