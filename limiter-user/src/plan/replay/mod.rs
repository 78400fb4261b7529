//! What limits would have done with the packets of a capture, at the times at which they came.
//!
//! By one of two engines: the program in the kernel, which is given each packet with its time, or the same
//! arithmetic in this process. Both say the same of every packet.

pub mod model;
mod sources;

use std::{collections::BTreeMap, io};

use ipnet::IpNet;
use limiter_common::{
    abi::{
        Config, Listed,
        counters::{Count, Counters, LimitCounters},
    },
    arithmetic::quota::LENGTH_MAX,
    policy::{parse, verdict::Reason},
};

use crate::{
    config::{
        Invalid, Settings,
        compile::{FIRST_SLOT, TierBits},
        slot::Slot,
    },
    kernel::{self, ops::replay::Replay},
    observe::{
        self,
        replay::{self, ReplayedLimit},
    },
    plan::capture::{self, Capture, link},
};
use model::Model;
use sources::Sources;

/// Bytes of a frame that are looked at, at most: what drivers show at least of one in several buffers, and
/// what the kernel takes for a test-run.
pub const FRAME_MOST: usize = 3_072;

/// The longest frame that limits are made for: Ethernet's, with two tags.
const FRAME_MAX: u64 = 1_522;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The capture cannot be read.
    #[error(transparent)]
    Capture(#[from] capture::Error),
    /// The kernel cannot do it.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// The settings make no program.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Verdicts cannot be written.
    #[error("writing verdicts failed: {0}")]
    Written(#[from] io::Error),
}

/// What this comes to.
pub type Result<T> = std::result::Result<T, Error>;

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The kernel, and where that is not possible the model.
    Any,
    /// The program in the kernel.
    Kernel,
    /// The model.
    Model,
}

/// What limits are made into, for either engine.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub(super) config: Config,
    pub(super) prefixes: BTreeMap<IpNet, Listed>,
    pub(super) settings: Settings,
}

impl Compiled {
    /// From settings. Windows begin with the clock, and no sockets are asked.
    pub fn new(settings: &Settings) -> std::result::Result<Self, Invalid> {
        let slots: Vec<_> = (FIRST_SLOT..)
            .zip(settings.all_limits())
            .map(|(number, limit)| Slot {
                phase: 0,
                ..Slot::new(&limit, number)
            })
            .collect();
        let bits = TierBits::default().for_lists(&settings.lists).0;
        let config = Config {
            established: 0,
            ..settings.compile(&slots, &bits, FRAME_MAX)?
        };
        Ok(Self {
            config,
            prefixes: settings.lists.compile(&bits),
            settings: settings.clone(),
        })
    }
}

/// What decides about packets.
#[derive(Debug)]
pub enum Engine {
    /// The program in the kernel.
    Kernel(Box<Replay>),
    /// The same arithmetic in this process.
    Model(Box<Model>),
}

impl Engine {
    /// The program in the kernel, from the moment `begin` (nanoseconds) on.
    pub fn kernel(compiled: &Compiled, begin: u64) -> Result<Self> {
        let program = Replay::load(&compiled.config, &compiled.prefixes, begin)?;
        Ok(Self::Kernel(Box::new(program)))
    }

    /// The model, likewise.
    #[must_use]
    pub fn model(compiled: &Compiled, begin: u64) -> Self {
        let model = Model::new(&compiled.config, &compiled.prefixes, begin);
        Self::Model(Box::new(model))
    }

    /// The chosen one. `watcher` is told if the kernel was wanted if possible, and is not possible.
    fn start(
        choice: Choice,
        compiled: &Compiled,
        begin: u64,
        watcher: &mut dyn Watcher,
    ) -> Result<Self> {
        match choice {
            Choice::Model => Ok(Self::model(compiled, begin)),
            Choice::Kernel => Self::kernel(compiled, begin),
            Choice::Any => Self::kernel(compiled, begin).or_else(|why| {
                watcher.tell(&format!(
                    "the model decides, not the program in the kernel: {why}"
                ));
                Ok(Self::model(compiled, begin))
            }),
        }
    }

    /// What to call it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "kernel",
            Self::Model(_) => "model",
        }
    }

    /// What becomes of a frame at the moment `now` (nanoseconds).
    pub fn offer(&mut self, frame: &link::Frame<'_>, now: u64) -> Result<Reason> {
        // In the program 0 stands for a clock that was not read.
        let now = now.max(1);
        let length = frame.length.min(LENGTH_MAX);
        match self {
            Self::Kernel(program) => Ok(program.offer(frame.bytes, length, now)?),
            Self::Model(model) => Ok(model.offer(frame.bytes, length, now)),
        }
    }

    fn limit(&self, slot: u32) -> Result<LimitCounters> {
        match self {
            Self::Kernel(program) => Ok(program.limit(slot)?),
            Self::Model(model) => Ok(model.limit(slot)),
        }
    }
}

/// Whoever wants to know how it goes.
pub trait Watcher {
    /// Each packet, with its number; no reason if the host has sent it, as the capture says: a limiter would not have seen it.
    fn verdict(&mut self, number: u64, reason: Option<Reason>) -> io::Result<()>;
    /// How far the capture has been read, after each packet.
    fn progress(&mut self, _capture: &Capture) {}
    /// Something that people should know.
    fn tell(&mut self, text: &str);
}

/// Runs the packets of a capture past limits.
pub fn run(
    capture: &mut Capture,
    compiled: &Compiled,
    choice: Choice,
    watcher: &mut dyn Watcher,
) -> Result<replay::Replay> {
    let mut engine = None;
    let mut course = Course::new(compiled);
    let mut room = Vec::new();
    while let Some(packet) = capture.next()? {
        let engine = match &mut engine {
            Some(engine) => engine,
            none => none.insert(Engine::start(choice, compiled, packet.time, watcher)?),
        };
        let frame = link::frame(&packet, FRAME_MOST, &mut room);
        let reason = if packet.outgoing {
            None
        } else {
            Some(engine.offer(&frame, packet.time)?)
        };
        let is_cut = (packet.bytes.len() as u64) < packet.length;
        course.count(&frame, packet.time, is_cut, reason);
        watcher.verdict(packet.number, reason)?;
        watcher.progress(capture);
    }
    let engine = match engine {
        Some(engine) => engine,
        None => Engine::start(choice, compiled, 0, watcher)?,
    };
    course.finish(capture, &engine, compiled)
}

/// Reasons of malformed packets.
const MALFORMED: [Reason; 3] = [
    Reason::Malformed,
    Reason::MalformedPassed,
    Reason::MalformedWouldDrop,
];

/// What is known of the packets so far.
struct Course {
    counters: Counters,
    outgoing: Count,
    sources: Sources,
    control: bool,
    /// Whether limits look at the transport header.
    transport: bool,
    /// Packets of which too little was captured for the limits.
    cut_short: u64,
    first: Option<u64>,
    last: u64,
}

impl Course {
    fn new(compiled: &Compiled) -> Self {
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

    fn count(&mut self, frame: &link::Frame<'_>, time: u64, is_cut: bool, reason: Option<Reason>) {
        self.first.get_or_insert(time);
        self.last = time;
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
        let mut bytes = frame.bytes;
        let parsed = parse(&mut bytes).with_arp(self.control);
        let info = parsed.info(&mut bytes, self.transport);
        let hidden = self.transport && info.is_some_and(|info| info.is_hidden());
        self.cut_short += u64::from((MALFORMED.contains(&reason) || hidden) && is_cut);
        if let Some(info) = info {
            self.sources.count(&info.source, reason);
        }
    }

    fn finish(
        self,
        capture: &Capture,
        engine: &Engine,
        compiled: &Compiled,
    ) -> Result<replay::Replay> {
        let of = |reason: Reason| self.counters.by_reason[reason as usize];
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
            malformed: MALFORMED.map(of).into_iter().sum::<Count>().into(),
            not_ip: of(Reason::NotIp).into(),
            outgoing: self.outgoing.into(),
            seconds,
            drops: observe::Drops::new(&self.counters),
            limits: limits(engine, compiled, &self.counters)?,
            sources,
            other_sources,
            cut_short_packets: self.cut_short,
            cut: capture.cut().map(|cut| match cut {
                capture::Cut::Short => "short",
                capture::Cut::Damaged => "damaged",
            }),
            clock_set_back: capture.set_back(),
        })
    }
}

/// The counters of each limit.
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
