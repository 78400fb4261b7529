//! Replays a capture: the decisions of a model of the program about its packets, at the packets' times.

mod course;
pub mod model;
mod report;
mod sources;
mod verdict;

use std::collections::BTreeMap;

use anyhow::Result;
use ipnet::IpNet;
use limiter_common::{
    abi::{Constants, Listed},
    arithmetic::quota::LENGTH_MAX,
    policy::verdict::Reason,
};

use crate::plan::capture::{Capture, Frame};
use course::Course;
pub use course::Outcome;
use limiter_config::{Invalid, Settings, Slot, TierBits, compile::FIRST_SLOT};
use model::Model;
pub use report::Report;
pub use sources::SourceCounters;
pub use verdict::{Decided, PacketVerdict};

/// The longest frame that limits are made for, in bytes: Ethernet with two tags.
pub const FRAME_MAX: u64 = 1_522;

/// The settings compiled for the model.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub(super) config: Box<Constants>,
    pub(super) prefixes: BTreeMap<IpNet, Listed>,
    pub(super) settings: Settings,
}

impl Compiled {
    /// Compiles settings for packets of no connection. Windows begin with the clock.
    pub fn new(settings: &Settings) -> std::result::Result<Self, Invalid> {
        let mut without_sockets = settings.clone();
        without_sockets.exempt.established = false;
        Self::of(settings, &without_sockets)
    }

    /// Compiles settings for the [`connected`](Model::connected) model.
    pub fn connected(settings: &Settings) -> std::result::Result<Self, Invalid> {
        Self::of(settings, settings)
    }

    fn of(settings: &Settings, in_force: &Settings) -> std::result::Result<Self, Invalid> {
        let slots: Vec<_> = (FIRST_SLOT..)
            .zip(settings.all_limits())
            .map(|(number, limit)| Slot {
                phase: 0,
                ..Slot::new(&limit, number)
            })
            .collect();
        let bits = TierBits::default().for_settings(settings).0;
        let config = in_force.compile(&slots, &bits, FRAME_MAX)?;
        Ok(Self {
            config,
            prefixes: settings.lists.compile(&bits).iter().collect(),
            settings: settings.clone(),
        })
    }

    /// The model with these settings. Time starts at `begin` (nanoseconds).
    pub fn model(&self, begin: u64) -> Model {
        Model::new(self.config.clone(), &self.prefixes, begin)
    }
}

/// Replays the packets of a capture, and calls `each` with every decision. Packets of the other direction, according to
/// the capture, pass: a limiter would not have seen them.
pub fn run(
    capture: &mut Capture,
    compiled: &Compiled,
    mut each: impl FnMut(&Capture, &Decided<'_>) -> Result<()>,
) -> Result<Outcome> {
    let limits = compiled.settings.all_limits();
    let name = |slot: u32| Some(&*limits.get((slot - FIRST_SLOT) as usize)?.name);
    let mut next = capture.next();
    let begin = next.as_ref().map_or(0, |packet| packet.time);
    let mut model = compiled.model(begin);
    let mut course = Course::new(compiled);
    while let Some(packet) = next {
        let is_seen = packet.is_seen(compiled.settings.direction);
        let reason = is_seen.then(|| decide(&mut model, &packet.frame, packet.time));
        let details = reason.map(|reason| model.details(reason));
        let source = course.count(&packet, reason);
        let decided = Decided {
            packet: &packet,
            source,
            reason,
            why: details.map(|(why, _)| why),
            limit: details.and_then(|(_, slot)| name(slot?)),
        };
        each(capture, &decided)?;
        next = capture.next();
    }
    Ok(course.finish(&model))
}

/// Decides about a frame at the time `now` (nanoseconds).
pub fn decide(model: &mut Model, frame: &Frame, now: u64) -> Reason {
    // In the program, 0 means that the clock has not been read.
    model.offer(&frame.bytes, frame.length.min(LENGTH_MAX), now.max(1))
}
