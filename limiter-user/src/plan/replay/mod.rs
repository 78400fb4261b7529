//! What limits would have done with the packets of a capture, at the times at which they came.
//!
//! By one of two engines: the program in the kernel, which is given each packet with its time, or the same
//! arithmetic in this process. Both say the same of every packet.

mod course;
pub mod model;
mod sources;

use std::{collections::BTreeMap, io};

use ipnet::IpNet;
use limiter_common::{
    abi::{Config, Listed, counters::LimitCounters},
    arithmetic::quota::LENGTH_MAX,
    policy::verdict::Reason,
};

use crate::{
    config::{
        Invalid, Settings,
        compile::{FIRST_SLOT, TierBits},
        slot::Slot,
    },
    kernel::{self, ops::replay::Replay},
    observe::replay,
    plan::capture::{self, Capture, link},
};
use course::Course;
use model::Model;

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
