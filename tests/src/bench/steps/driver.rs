//! Runs a program on packets of changing sources, by the kernel's test-run.

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

/// In which order the sources come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One after the other: as many packets as there are sources meet each once.
    Counting,
    /// At random, so that neither caches nor prefetching see what comes next.
    Random,
}

impl Order {
    /// The words of `Walk` in the driver's source: state, multiplier, increment, mask. The number
    /// of the source is in the state's bits from the 40th on.
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

/// What repeated runs gave.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The verdict on the last packet (`enum xdp_action`).
    pub action: u32,
    /// Nanoseconds a packet.
    pub nanoseconds: f64,
}

/// The programs that change the source, and where they jump to.
pub struct Driver {
    object: Object,
    walk: Array<MapData, [u64; 4]>,
    plain: ProgramArray<MapData>,
    frags: ProgramArray<MapData>,
}

impl Driver {
    /// Loads it; with `frags` also the one for programs that take packets in several buffers.
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

    /// Takes the sources from the first one on, in this order. Their number is a power of two.
    pub fn start(&mut self, order: Order, sources: u32) -> Result<()> {
        Ok(self.walk.set(0, order.walk(sources), 0)?)
    }

    /// Runs `program` on `repeat` packets, each of the next source.
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
/// The time is the processor time of this thread, because the kernel's own figure is in whole
/// nanoseconds, and some steps take one. What the call does besides (a quarter of a millisecond, most of
/// it for making the program the one that is called directly) is small against a million repetitions,
/// and the floor has it too.
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
