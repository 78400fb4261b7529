//! Runs a program on packets of changing sources, with the kernel's test-run.

use std::os::fd::{AsFd as _, BorrowedFd};

use anyhow::{Context as _, Result};
use aya::{
    maps::{Array, MapData, ProgramArray},
    programs::ProgramFd,
};
use limiter_common::abi::Config;
use limiter_tests::packet::Frame;
use limiter_user::kernel::sys::bpf;

use crate::{
    machine::processor_time,
    object::{Code, Object},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One source after the other.
    Counting,
    /// Random, so that neither caches nor prefetching can predict the next source.
    Random,
}

impl Order {
    /// The words of `Walk` in the driver's source: state, multiplier, increment, mask. Bits 40 and up of the state are
    /// the number of the source.
    fn walk(self, sources: u32) -> [u64; 4] {
        let mask = u64::from(sources) - 1;
        match self {
            Self::Counting => [0, 1, 1 << 40, mask],
            // Knuth's constants of MMIX: the state passes through all of its 2^64 values.
            Self::Random => [
                1,
                6_364_136_223_846_793_005,
                1_442_695_040_888_963_407,
                mask,
            ],
        }
    }
}

/// Result of repeated runs.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The verdict on the last packet (`enum xdp_action`).
    pub action: u32,
    /// Nanoseconds per packet.
    pub nanoseconds: f64,
}

/// The programs that change the source, and their jump targets.
pub struct Driver {
    object: Object,
    walk: Array<MapData, [u64; 4]>,
    plain: ProgramArray<MapData>,
    frags: ProgramArray<MapData>,
}

impl Driver {
    /// Loads the driver; with `frags`, also the driver for programs that take multi-buffer packets.
    pub fn load(frags: bool) -> Result<Self> {
        let programs: &[&str] = if frags {
            &["draw", "draw_frags"]
        } else {
            &["draw"]
        };
        let mut object = Object::load(Code::Bench, &Config::NONE, programs)?;
        Ok(Self {
            walk: object.take_map("WALK")?.try_into()?,
            plain: object.take_map("TARGET")?.try_into()?,
            frags: object.take_map("TARGET_FRAGS")?.try_into()?,
            object,
        })
    }

    /// Begins with the first source, in this order. The number of sources is a power of two.
    pub fn start(&mut self, order: Order, sources: u32) -> Result<()> {
        Ok(self.walk.set(0, order.walk(sources), 0)?)
    }

    /// Runs `program` on `repeat` packets, each from the next source.
    pub fn drive(&mut self, program: &ProgramFd, frags: bool, repeat: u32) -> Result<Run> {
        let (target, entry) = if frags {
            (&mut self.frags, "draw_frags")
        } else {
            (&mut self.plain, "draw")
        };
        target
            .set(0, program, 0)
            .context("handing the program to the driver")?;
        run(self.object.program(entry)?.as_fd(), repeat)
    }
}

/// Runs `program` `repeat` times on one packet.
///
/// The result is this thread's processor time. The kernel's own figure is in whole nanoseconds, and some steps take one
/// nanosecond. The call itself costs 0.25 ms, which is small against a million repetitions, and part of the floor too.
pub fn run(program: BorrowedFd<'_>, repeat: u32) -> Result<Run> {
    let mut packet = Frame::from([10, 0, 0, 0].into()).bytes();
    let before = processor_time()?;
    let run = bpf::test_run(program, &mut packet, 0, repeat).context("the kernel's test-run")?;
    let nanoseconds = (processor_time()? - before) / f64::from(repeat);
    Ok(Run {
        action: run.action,
        nanoseconds,
    })
}
