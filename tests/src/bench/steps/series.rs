//! Measures one case. Its subjects take turns, so that other load on the machine affects all of them equally.

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::{
    case::{Case, Verdict},
    driver::{Driver, Order},
    objects::{Counted, Objects, expect_only},
    subject::{self, FLOORS, Subject},
};
use crate::sample::Sample;

/// Length of the measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Effort {
    /// Turns of each subject.
    pub rounds: u32,
    /// Packets per turn.
    pub repeat: u32,
    /// Packets before each turn, which bring code and table into the caches again, as far as they fit.
    #[serde(skip)]
    pub warm_up: u32,
}

impl Effort {
    /// Only to check that it works.
    pub const QUICK: Self = Self {
        rounds: 1,
        repeat: 1_000,
        warm_up: 0,
    };

    /// `rounds` turns of `repeat` packets.
    pub fn new(rounds: u32, repeat: u32) -> Self {
        let warm_up = repeat / 10;
        Self {
            rounds,
            repeat,
            warm_up,
        }
    }
}

/// The result of one subject.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub sources: u32,
    pub verdict: Verdict,
    pub name: &'static str,
    /// Nanoseconds per packet.
    #[serde(flatten)]
    pub sample: Sample,
    /// Nanoseconds more than a program that only drops and is reached in the same way.
    pub over_floor: f64,
    /// The figure as a multiple of that program's.
    pub times_floor: f64,
}

pub fn measure(case: Case, effort: Effort, frags: bool) -> Result<Vec<Measured>> {
    let mut driver = Driver::load(frags)?;
    let objects = Objects::load(case, &mut driver, frags)?;
    let mut subjects = subject::all(&objects, case, frags)?;
    let before: Vec<Counted> = objects
        .limiting()
        .map(|(object, _)| object.counted())
        .collect::<Result<_>>()?;
    driver.start(Order::Random, case.sources)?;
    for _ in 0..effort.rounds {
        for subject in &mut subjects {
            if effort.warm_up > 0 {
                subject.run(&mut driver, effort.warm_up)?;
            }
            let nanoseconds = subject.run(&mut driver, effort.repeat)?;
            subject.rounds.push(nanoseconds);
        }
    }
    let least = u64::from(effort.rounds) * u64::from(effort.repeat);
    for ((object, _), before) in objects.limiting().zip(&before) {
        expect_only(object, before, case.verdict.reason(), least)?;
    }
    results(case, &subjects)
}

fn results(case: Case, subjects: &[Subject<'_>]) -> Result<Vec<Measured>> {
    let of = |subject: &Subject<'_>| Sample::of(subject.rounds.clone()).context("no rounds");
    let mut measured = Vec::new();
    for subject in subjects {
        let floor = FLOORS
            .iter()
            .find(|(way, _)| *way == subject.way)
            .map(|(_, name)| *name);
        let floor = subjects
            .iter()
            .find(|other| Some(other.name) == floor)
            .context("no floor")?;
        let (sample, floor) = (of(subject)?, of(floor)?.median);
        measured.push(Measured {
            sources: case.sources,
            verdict: case.verdict,
            name: subject.name,
            sample,
            over_floor: sample.median - floor,
            times_floor: sample.median / floor,
        });
    }
    Ok(measured)
}
