//! Defines the subjects of a case: programs, and the way in which packets reach them.

use std::os::fd::AsFd as _;

use anyhow::{Result, ensure};
use aya::programs::ProgramFd;

use super::{
    case::{Case, XDP_DROP, XDP_PASS},
    driver::{self, Driver},
    objects::Objects,
    programs::STEPS,
};
use crate::object::Object;

/// The way in which packets reach a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Packets of one source, without the driver.
    Direct,
    /// Through the driver.
    Driven,
    /// Through the driver for programs that take multi-buffer packets.
    Frags,
}

/// Programs that only drop, one for each way: the floor of all figures.
pub const FLOORS: [(Way, &str); 3] = [
    (Way::Direct, "bare drop"),
    (Way::Driven, "floor"),
    (Way::Frags, "floor, frags"),
];

/// One program under test, and its figures so far.
#[derive(Debug)]
pub struct Subject<'a> {
    pub name: &'static str,
    pub way: Way,
    program: &'a ProgramFd,
    action: u32,
    /// Nanoseconds per packet in each round.
    pub rounds: Vec<f64>,
}

impl<'a> Subject<'a> {
    fn new(
        name: &'static str,
        way: Way,
        (object, program): (&'a Object, &str),
        action: u32,
    ) -> Result<Self> {
        let program = object.program(program)?;
        Ok(Self {
            name,
            way,
            program,
            action,
            rounds: Vec::new(),
        })
    }

    /// Runs the program on `repeat` packets. Returns nanoseconds per packet.
    pub fn run(&self, driver: &mut Driver, repeat: u32) -> Result<f64> {
        let run = match self.way {
            Way::Direct => driver::run(self.program.as_fd(), repeat)?,
            Way::Driven => driver.drive(self.program, false, repeat)?,
            Way::Frags => driver.drive(self.program, true, repeat)?,
        };
        ensure!(
            run.action == self.action,
            "{} returned {} instead of {}: this figure would be of something else",
            self.name,
            run.action,
            self.action
        );
        Ok(run.nanoseconds)
    }
}

/// All subjects of a case. Those that need no driver, or do not depend on the number of sources, are measured with one
/// source only.
pub fn all(objects: &Objects, case: Case, frags: bool) -> Result<Vec<Subject<'_>>> {
    let Objects {
        bare,
        limiter,
        by_bytes,
        steps,
    } = objects;
    let action = case.verdict.action();
    let mut subjects = vec![
        Subject::new("floor", Way::Driven, (bare, "drop_only"), XDP_DROP)?,
        Subject::new("limiter", Way::Driven, (limiter, "limiter"), action)?,
    ];
    if frags {
        subjects.extend([
            Subject::new(
                "floor, frags",
                Way::Frags,
                (bare, "drop_only_frags"),
                XDP_DROP,
            )?,
            Subject::new(
                "limiter, frags",
                Way::Frags,
                (limiter, "limiter_frags"),
                action,
            )?,
        ]);
    }
    for step in STEPS {
        let action = if step.drops { XDP_DROP } else { action };
        subjects.push(Subject::new(
            step.program,
            Way::Driven,
            (steps, step.program),
            action,
        )?);
    }
    if let Some(by_bytes) = by_bytes {
        subjects.extend([
            Subject::new(
                "limiter, by bytes",
                Way::Driven,
                (by_bytes, "limiter"),
                action,
            )?,
            Subject::new("bare drop", Way::Direct, (bare, "drop_only"), XDP_DROP)?,
            Subject::new("bare pass", Way::Direct, (bare, "pass_only"), XDP_PASS)?,
            Subject::new("limiter, direct", Way::Direct, (limiter, "limiter"), action)?,
        ]);
    }
    Ok(subjects)
}
