//! The program without an interface, run on recorded packets, each with its own time.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use ipnet::IpNet;
use limiter_common::{
    abi::{CLOCK_PACKET, Config, Listed, Stamp, counters::LimitCounters},
    policy::verdict::Reason,
};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity},
    unistd::Pid,
};

use crate::kernel::{
    Failed, Result,
    program::{ListMaps, Maps, Raw, Tables, object},
    sys::{bpf, requirements},
};

/// Runs a program that was loaded with [`CLOCK_PACKET`] once, on a frame with this stamp. Returns its `enum xdp_action`
/// and the reason for it. Afterwards `room` has the
/// program's output: the stamp, followed by the frame. The kernel takes frames of at least 14 bytes.
pub fn run(
    program: BorrowedFd<'_>,
    stamp: Stamp,
    frame: &[u8],
    room: &mut Vec<u8>,
) -> io::Result<(u32, Reason)> {
    room.clear();
    room.extend(stamp.nanoseconds.to_ne_bytes());
    room.extend(stamp.reason.to_ne_bytes());
    room.extend(stamp.uncertainty.to_ne_bytes());
    room.extend(stamp.length.to_ne_bytes());
    room.extend(stamp.reserved.to_ne_bytes());
    room.extend(frame);
    let run = bpf::test_run(program, room, STAMP_LENGTH, 1)?;
    let left = Raw::<Stamp>::read(room);
    let reason = left.and_then(|stamp| Reason::from_number(stamp.reason));
    Ok((run.action, reason.ok_or(io::ErrorKind::InvalidData)?))
}

/// Bytes in front of a packet.
#[expect(clippy::cast_possible_truncation, reason = "some bytes")]
const STAMP_LENGTH: u32 = size_of::<Stamp>() as u32;

/// [`Stamp::reason`] before the program has written it: no reason.
pub const UNSAID: u32 = u32::MAX;

/// The program, for a replay.
#[derive(Debug)]
pub struct Replay {
    program: OwnedFd,
    tables: Tables,
    room: Vec<u8>,
    /// Keeps the program loaded.
    _loaded: object::Program,
    _cpu: OneCpu,
}

impl Replay {
    /// Loads the program with new maps, for packets from the moment `begin` (nanoseconds) on.
    pub fn load(
        mut config: Box<Config>,
        prefixes: &BTreeMap<IpNet, Listed>,
        begin: u64,
    ) -> Result<Self> {
        let version = requirements::kernel()?;
        requirements::privileges()?;
        config.clock = CLOCK_PACKET;
        // The other program decides the same, and the kernel runs it on all frames.
        config.tc = 0;
        let maps = Maps::Replayed {
            seed: config.seed,
            full_at: begin,
        };
        let lists = ListMaps::New(prefixes);
        let mut loaded = object::load(&config, maps, lists, version.has_frags())?;
        let program = loaded.fd()?.try_clone_to_owned();
        Ok(Self {
            program: program.failed("keeping the program")?,
            tables: loaded.tables()?,
            room: Vec::new(),
            _loaded: loaded,
            _cpu: OneCpu::stay()?,
        })
    }

    /// The program's decision about a frame of `length` bytes, at the moment `now` (nanoseconds, not 0).
    pub fn offer(&mut self, frame: &[u8], length: u64, now: u64) -> Result<Reason> {
        let stamp = Stamp {
            nanoseconds: now,
            reason: UNSAID,
            uncertainty: 0,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            reserved: 0,
        };
        let said = run(self.program.as_fd(), stamp, frame, &mut self.room);
        Ok(said.failed("running the program on a packet")?.1)
    }

    /// Counters of the limit in `slot`, from the full path.
    pub fn limit(&self, slot: u32) -> Result<LimitCounters> {
        self.tables.limit(slot)
    }
}

/// Keeps this thread on its CPU. Each CPU has its own lease of new sources, and a capture does not say how many CPUs
/// its packets came in on.
#[derive(Debug)]
struct OneCpu(CpuSet);

impl OneCpu {
    fn stay() -> Result<Self> {
        let before = || -> nix::Result<CpuSet> {
            let before = sched_getaffinity(Pid::from_raw(0))?;
            let mut one = CpuSet::new();
            one.set(sched_getcpu()?)?;
            sched_setaffinity(Pid::from_raw(0), &one)?;
            Ok(before)
        };
        before().map(Self).failed("staying on one CPU")
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        // The thread was allowed on these CPUs before, so this cannot fail.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.0);
    }
}
