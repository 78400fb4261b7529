//! Replays a capture: the limits' decisions about its packets, at the packets' times.
//!
//! There are two engines: the program in the kernel, which gets each packet with its time, and a model of the program
//! in this process. Both decide alike.

mod course;
pub mod model;
mod sources;

use std::collections::BTreeMap;

use anyhow::Result;
use clap::ValueEnum;
use ipnet::IpNet;
use limiter_common::{
    abi::{Config, Listed, counters::LimitCounters},
    arithmetic::quota::LENGTH_MAX,
    policy::verdict::Reason,
};

use crate::{
    config::{Invalid, Settings, Slot, TierBits, compile::FIRST_SLOT},
    kernel::ops::replay::Replay,
    plan::capture::{Capture, Frame},
};
use course::Course;
pub use course::Outcome;
use model::Model;
pub use sources::SourceCounters;

/// The longest frame that limits are made for, in bytes: Ethernet with two tags.
pub const FRAME_MAX: u64 = 1_522;

/// The choice of engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// The kernel if possible, otherwise the model.
    #[value(skip)]
    Any,
    /// The program, in the kernel.
    Kernel,
    /// The model of the program, in this process. It needs no privileges.
    Model,
}

/// The settings compiled for either engine.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub(super) config: Box<Config>,
    pub(super) prefixes: BTreeMap<IpNet, Listed>,
    pub(super) settings: Settings,
}

impl Compiled {
    /// Compiles settings. Windows begin with the clock. Sockets are not looked up.
    pub fn new(settings: &Settings) -> std::result::Result<Self, Invalid> {
        let mut without_sockets = settings.clone();
        without_sockets.exempt.established = false;
        let slots: Vec<_> = (FIRST_SLOT..)
            .zip(settings.all_limits())
            .map(|(number, limit)| Slot {
                phase: 0,
                ..Slot::new(&limit, number)
            })
            .collect();
        let bits = TierBits::default().for_settings(settings).0;
        let config = without_sockets.compile(&slots, &bits, FRAME_MAX)?;
        Ok(Self {
            config,
            prefixes: settings.lists.compile(&bits),
            settings: settings.clone(),
        })
    }

    /// The model with these settings. Time starts at `begin` (nanoseconds).
    pub fn model(&self, begin: u64) -> Model {
        Model::new(self.config.clone(), &self.prefixes, begin)
    }
}

/// An engine that decides about packets.
#[derive(Debug)]
pub enum Engine {
    /// The program in the kernel.
    Kernel(Box<Replay>),
    /// The model in this process.
    Model(Box<Model>),
}

impl Engine {
    /// Creates the kernel's engine. Time starts at `begin` (nanoseconds).
    pub fn kernel(compiled: &Compiled, begin: u64) -> Result<Self> {
        let program = Replay::load(compiled.config.clone(), &compiled.prefixes, begin)?;
        Ok(Self::Kernel(Box::new(program)))
    }

    /// Creates the model's engine. Time starts at `begin` (nanoseconds).
    pub fn model(compiled: &Compiled, begin: u64) -> Self {
        Self::Model(Box::new(compiled.model(begin)))
    }

    /// Creates the chosen engine. With [`Choice::Any`], calls `tell` if the kernel's engine fails and the model
    /// replaces it.
    fn start(choice: Choice, compiled: &Compiled, begin: u64, tell: fn(&str)) -> Result<Self> {
        match choice {
            Choice::Model => Ok(Self::model(compiled, begin)),
            Choice::Kernel => Self::kernel(compiled, begin),
            Choice::Any => Self::kernel(compiled, begin).or_else(|why| {
                tell(&format!(
                    "a model in this process decides instead of the program in the kernel: {why}"
                ));
                Ok(Self::model(compiled, begin))
            }),
        }
    }

    /// The engine's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "kernel",
            Self::Model(_) => "model",
        }
    }

    /// Decides about a frame at the time `now` (nanoseconds).
    pub fn offer(&mut self, frame: &Frame, now: u64) -> Result<Reason> {
        // In the program, 0 means that the clock has not been read.
        let now = now.max(1);
        let length = frame.length.min(LENGTH_MAX);
        match self {
            Self::Kernel(program) => Ok(program.offer(&frame.bytes, length, now)?),
            Self::Model(model) => Ok(model.offer(&frame.bytes, length, now)),
        }
    }

    fn limit(&self, slot: u32) -> Result<LimitCounters> {
        match self {
            Self::Kernel(program) => Ok(program.limit(slot)?),
            Self::Model(model) => Ok(model.limit(slot)),
        }
    }
}

/// Replays the packets of a capture. Calls `tell` with a message for people, before the first packet, and `each` with
/// each packet's number and reason. There is no reason if the host sent the packet, according to the capture: a limiter
/// would not have seen it.
pub fn run(
    capture: &mut Capture,
    compiled: &Compiled,
    choice: Choice,
    tell: fn(&str),
    mut each: impl FnMut(&Capture, u64, Option<Reason>) -> Result<()>,
) -> Result<Outcome> {
    let mut next = capture.next().transpose()?;
    let begin = next.as_ref().map_or(0, |packet| packet.time);
    let mut engine = Engine::start(choice, compiled, begin, tell)?;
    let mut course = Course::new(compiled, begin);
    while let Some(packet) = next {
        let reason = if packet.outgoing {
            None
        } else {
            Some(engine.offer(&packet.frame, packet.time)?)
        };
        course.count(&packet, reason);
        each(capture, packet.number, reason)?;
        next = capture.next().transpose()?;
    }
    course.finish(&engine)
}
