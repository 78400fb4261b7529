//! Replays a capture through a limiter whose host is overloaded above a rate of packets.

use anyhow::Result;
use limiter_common::{abi::rules::LIMITS_MAX, arithmetic::scale::ONE};
use limiter_config::{Rate, Settings, compile::FIRST_SLOT};

use super::controller::{Controller, ROUND};
use crate::plan::{
    capture::Capture,
    replay::{Compiled, decide},
};

/// The longest time without packets, in seconds.
const GAP_MAX: u64 = 3_600;

/// One second of the capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Second {
    /// Packets that arrived.
    pub offered: u64,
    /// Packets that pass at the configured rates.
    pub configured: u64,
    /// Packets that pass at the adapted rates.
    pub adapted: u64,
    /// The parts of the configured rates in force, by limit.
    pub scales: Vec<(String, f64)>,
}

/// Replays the capture in the model. In each second in which more packets pass than `capacity`, all signals are over.
pub fn run(capture: &mut Capture, settings: &Settings, capacity: Rate) -> Result<Vec<Second>> {
    let compiled = Compiled::new(settings)?;
    let mut limits: Vec<_> = (FIRST_SLOT..LIMITS_MAX)
        .zip(settings.all_limits())
        .filter_map(|(slot, limit)| {
            let controller = Controller::new(limit.adaptive?.floor, ONE);
            Some((slot, limit.name, controller))
        })
        .collect();
    let mut next = capture.next().transpose()?;
    let begin = next.as_ref().map_or(0, |packet| packet.time);
    let mut models = [(); 2].map(|()| compiled.model(ROUND));
    let mut seconds = Vec::new();
    let mut second = Second::default();
    let mut ends = 2 * ROUND;
    while let Some(packet) = next {
        next = capture.next().transpose()?;
        if packet.outgoing {
            continue;
        }
        // Scales are for times since boot.
        let now = packet.time.saturating_sub(begin) + ROUND;
        let gap = now.saturating_sub(ends) / ROUND;
        anyhow::ensure!(
            gap < GAP_MAX,
            "packet {} comes {gap} seconds after the one before it: cut the capture there",
            packet.number
        );
        while now >= ends {
            let over = second.adapted as f64 > capacity.per_second();
            let part = |controller: &Controller| f64::from(controller.scale()) / f64::from(ONE);
            for (slot, name, controller) in &mut limits {
                second.scales.push((name.clone(), part(controller)));
                controller.step(over);
                models[1].set_scale(*slot, controller.word(ends));
            }
            seconds.push(std::mem::take(&mut second));
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
    seconds.push(second);
    Ok(seconds)
}
