//! Replays a capture through a limiter whose host is overloaded above a rate of packets.

use anyhow::Result;
use limiter_common::{abi::rules::LIMITS_MAX, arithmetic::scale::ONE};
use limiter_config::{Rate, Settings, compile::FIRST_SLOT};
use serde::Serialize;

use super::controller::{Controller, ROUND};
use crate::plan::{
    capture::Capture,
    replay::{Compiled, decide},
};

/// Number of seconds without packets in a row that are shown.
const QUIET_MAX: u64 = 3_600;

/// One second of the capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Second {
    /// Number of the second, from 0. Some seconds of long gaps are left out.
    pub number: u64,
    /// Packets that arrived.
    pub offered: u64,
    /// Packets that pass at the configured rates.
    pub configured: u64,
    /// Packets that pass at the adapted rates.
    pub adapted: u64,
    /// The parts of the configured rates in force, by limit.
    pub scales: Vec<Scale>,
}

/// The part of a limit's rate that is in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Scale {
    /// Name of the limit.
    pub limit: String,
    /// The part, up to 1.
    pub part: f64,
}

/// The output of `adapt --simulate --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Simulated {
    /// The seconds of the capture.
    pub seconds: Vec<Second>,
    /// Packets of the other direction, according to the capture. Limits do not apply to them.
    pub other_direction: u64,
}

/// Replays the capture in the model. In each second in which more packets pass than `capacity`, all signals are over.
pub fn run(capture: &mut Capture, settings: &Settings, capacity: Rate) -> Result<Simulated> {
    let compiled = Compiled::new(settings)?;
    let mut limits: Vec<_> = (FIRST_SLOT..LIMITS_MAX)
        .zip(settings.all_limits())
        .filter_map(|(slot, limit)| {
            let controller = Controller::new(limit.adaptive?.floor, ONE);
            Some((slot, limit.name, controller))
        })
        .collect();
    let mut simulated = Simulated::default();
    let mut models = [(); 2].map(|()| compiled.model(ROUND));
    let mut second = Second::default();
    let (mut begin, mut ends, mut quiet) = (None, 2 * ROUND, 0);
    for packet in capture {
        let begin = *begin.get_or_insert(packet.time);
        if !packet.is_seen(settings.direction) {
            simulated.other_direction += 1;
            continue;
        }
        // Scales are for times since boot.
        let now = packet.time.saturating_sub(begin) + ROUND;
        while now >= ends {
            quiet = if second.offered == 0 { quiet + 1 } else { 0 };
            let over = second.adapted as f64 > capacity.per_second();
            let part = |controller: &Controller| f64::from(controller.scale()) / f64::from(ONE);
            for (slot, name, controller) in &mut limits {
                if quiet <= QUIET_MAX {
                    second.scales.push(Scale {
                        limit: name.clone(),
                        part: part(controller),
                    });
                }
                controller.step(over);
                models[1].set_scale(*slot, controller.word(ends));
            }
            let next = Second {
                number: second.number + 1,
                ..Second::default()
            };
            let second = std::mem::replace(&mut second, next);
            if quiet <= QUIET_MAX {
                simulated.seconds.push(second);
            }
            ends += ROUND;
        }
        second.offered += 1;
        let frame = &packet.frame;
        let passed = models
            .each_mut()
            .map(|model| u64::from(decide(model, frame, now).passes()));
        second.configured += passed[0];
        second.adapted += passed[1];
    }
    simulated.seconds.push(second);
    Ok(simulated)
}
