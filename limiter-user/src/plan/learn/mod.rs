//! `limiter learn`: proposes limits that would have passed the observed traffic.
//!
//! [`sample`] keeps a uniform sample of the sources. [`demand`] computes the buckets that each of them needs for each service,
//! by the limiter's own arithmetic; [`combined`], for several services together. [`services`] finds the services that get a
//! limit. [`propose`] makes a configuration that suffices for nearly all, and [`show`] writes it with the reasons. These are
//! pure functions of the observed traffic, without the kernel, interfaces or capture formats. [`watch`] gets it from an
//! interface; [`flows`] tells connections of a capture apart.

pub mod combined;
pub mod demand;
mod flows;
mod new_sources;
pub mod propose;
pub mod sample;
mod services;
pub mod show;
pub mod watch;

pub use flows::Flows;
pub use propose::{Learned, Proposal, propose};
pub use sample::Sampler;

use std::collections::HashSet;

use limiter_common::{
    abi::{
        Constants,
        counters::Count,
        learn::{Service, Totals, source_of},
    },
    pod::Pod as _,
    policy::{
        PacketInfo,
        learn::{Kind, NEEDS, read},
    },
    table::{Seed, key::Address},
};

use crate::plan::capture::Frame;

/// The constants of the reader of packets.
static CONSTANTS: Constants = Constants {
    needs: NEEDS,
    ..Constants::NONE
};

/// All observed traffic.
#[derive(Debug)]
pub struct Watched {
    /// The sources in the sample.
    pub sampler: Sampler,
    /// Counters of all sources.
    pub totals: Totals,
    /// Destination ports of TCP to which a segment came that follows a handshake.
    pub in_use: HashSet<u16>,
    /// Finds connections. None if packets of connections were found among the host's sockets, or count.
    flows: Option<Flows>,
    /// Begin of the observation, in nanoseconds of the observed packets' clock.
    pub begun: u64,
    /// Duration of the observation, in nanoseconds.
    pub duration: u64,
}

impl Watched {
    /// Creates a state without traffic, for packets that all count.
    pub fn new(seed: Seed) -> Self {
        Self {
            sampler: Sampler::new(seed, sample::DEMANDS_MAX),
            totals: Totals::default(),
            in_use: HashSet::new(),
            flows: None,
            begun: u64::MAX,
            duration: 0,
        }
    }

    /// Creates a state without traffic, for a capture. Packets of TCP connections do not count.
    pub fn of_capture(seed: Seed) -> Self {
        Self {
            flows: Some(Flows::default()),
            ..Self::new(seed)
        }
    }

    /// Creates a state of traffic that was observed on an interface.
    pub fn new_observed(
        sampler: Sampler,
        totals: Totals,
        in_use: HashSet<u16>,
        [begun, duration]: [u64; 2],
    ) -> Self {
        Self {
            sampler,
            totals,
            in_use,
            flows: None,
            begun,
            duration,
        }
    }

    /// Adds a frame that arrived at `time` (nanoseconds), not before the previous frame.
    pub fn see(&mut self, time: u64, frame: &Frame) {
        self.begun = self.begun.min(time);
        self.duration = time - self.begun;
        let mut bytes = &frame.bytes[..];
        let mut info = PacketInfo::of(Address::ZEROS);
        let kind = read(&mut bytes, &mut info, &CONSTANTS);
        let totals = &mut self.totals;
        let add = |total: &mut Count| {
            total.packets += 1;
            total.bytes += frame.length;
        };
        match kind {
            Kind::NotIp => return,
            Kind::Malformed => return add(&mut totals.malformed),
            Kind::Control | Kind::Limited => add(&mut totals.seen),
        }
        if kind == Kind::Control {
            return add(&mut totals.control);
        }
        if info.follows_handshake() {
            self.in_use.extend(u16::try_from(info.destination_port));
        }
        let mut flows = self.flows.as_mut();
        if flows
            .as_mut()
            .is_some_and(|flows| flows.is_connection(&info))
        {
            return add(&mut totals.connections);
        }
        let (source, service) = (source_of(&info.source), Service::of(&info));
        self.sampler.see(time, source, service, 1);
    }
}
