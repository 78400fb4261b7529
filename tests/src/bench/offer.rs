//! Sends packets from the kernel of one host to the other host, and measures the time.

use std::{net::IpAddr, os::fd::BorrowedFd, sync::Barrier, thread};

use anyhow::{Context as _, Result, bail};
use aya::{
    TestRun, TestRunAttrs, TestRunOptions,
    maps::{Array, MapData},
};
use limiter_tests::test_run::test_run;

use super::{
    case::{Case, Cpus, Family, Sources},
    machine::{processor_time, stay_on},
    mix::{ETHERNET, IPV4, Kind},
    object::{Object, ObjectConstants},
    testbed::{Counters, Testbed},
};

/// A sender on one processor.
struct Sender {
    cpu: usize,
    object: Object,
    frames: Vec<(&'static Kind, Vec<u8>)>,
    /// Keeps the position among the sources.
    flow: Array<MapData, [u64; 6]>,
}

/// Place of the sum of the header in the flow.
const HEADER_SUM: usize = 4;

pub struct Senders(Vec<Sender>);

/// The result of one turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Nanoseconds of processor time per packet.
    pub nanoseconds: f64,
    /// Number of packets sent. All of them arrived.
    pub sent: u64,
    /// Number of packets that reached the socket.
    pub delivered: u64,
}

/// `XDP_DROP` and `XDP_PASS`.
const DROP: u32 = 1;
const PASS: u32 = 2;

/// Frames that are sent before any is received, as in one poll of a driver.
const BATCH: u32 = 64;

impl Senders {
    /// Senders on the first of `cpus`.
    pub fn new(case: Case, testbed: &Testbed, cpus: &[usize]) -> Result<Self> {
        let cpus = &cpus[..case.cpus.count()];
        (0..)
            .zip(cpus)
            .map(|(index, &cpu)| Sender::new(case, testbed, index, cpu))
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Sends `count` packets on each processor. Fails unless all arrive.
    pub fn send(&mut self, testbed: &Testbed, count: u32) -> Result<Turn> {
        let before = testbed.counters()?;
        let cpus = self.0.len();
        let barrier = Barrier::new(cpus);
        let times: Vec<f64> = thread::scope(|scope| {
            let running: Vec<_> = self
                .0
                .iter_mut()
                .map(|sender| {
                    let (barrier, client) = (&barrier, &testbed.client.namespace);
                    scope.spawn(move || client.run(|| sender.send(barrier, count))?)
                })
                .collect();
            let times = running.into_iter().map(|thread| thread.join().unwrap());
            times.collect::<Result<_>>()
        })?;
        let Counters { arrived, delivered } = testbed.counters()?;
        let packets = u64::from(count) * cpus as u64;
        let arrived = arrived - before.arrived;
        if arrived != packets {
            bail!("{packets} packets were sent and {arrived} arrived: a figure would be wrong");
        }
        Ok(Turn {
            nanoseconds: times.iter().sum::<f64>() / cpus as f64 / f64::from(count),
            sent: packets,
            delivered: delivered - before.delivered,
        })
    }
}

/// Runs a program alone on the server, on one packet of each kind again and again. The last verdict of a kind counts for
/// all its packets.
pub fn repeat(program: BorrowedFd<'_>, case: Case, testbed: &Testbed, count: u32) -> Result<Turn> {
    let mut turn = Turn {
        nanoseconds: 0.0,
        sent: u64::from(count),
        delivered: 0,
    };
    for (kind, mut frame) in frames(case, testbed) {
        let share = portion(count, kind.share);
        let run = || test_run(program, &mut frame, 0, share);
        // The program looks for connections in the network namespace of this thread.
        let run = testbed.server.namespace.run(run)?;
        let run = run.context("the kernel's test-run")?;
        if ![DROP, PASS].contains(&run.action) {
            bail!("the program has returned {}", run.action);
        }
        turn.nanoseconds += f64::from(run.nanoseconds) * f64::from(kind.share) / 100.0;
        turn.delivered += u64::from(if run.action == PASS { share } else { 0 });
    }
    Ok(turn)
}

/// These percent of a number, which is a multiple of 100.
fn portion(count: u32, percent: u32) -> u32 {
    (u64::from(count) * u64::from(percent) / 100) as u32
}

/// One frame of each kind.
fn frames(case: Case, testbed: &Testbed) -> Vec<(&'static Kind, Vec<u8>)> {
    let macs = (testbed.client.mac, testbed.server.mac);
    let kinds = case.traffic.kinds().iter();
    kinds
        .map(|kind| (kind, kind.frame(case.family, macs)))
        .collect()
}

impl Sender {
    fn new(case: Case, testbed: &Testbed, index: u32, cpu: usize) -> Result<Self> {
        let program = match case.family {
            Family::Ipv4 => "send_ipv4",
            Family::Ipv6 => "send_ipv6",
        };
        let mut object = Object::load(program, &ObjectConstants::none())?;
        let mut flow: Array<_, [u64; 6]> = object.take_map("FLOW")?.try_into()?;
        let count = case.sources.count();
        let first = match case.cpus {
            Cpus::Different => index * count,
            Cpus::One | Cpus::Same => 0,
        };
        let base = match case.family.first_source() {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(_) => 0,
        };
        let (mask, first) = (u64::from(count - 1), u64::from(base) + u64::from(first));
        let interface = u64::from(testbed.client.index);
        let heavy = u64::from(case.sources == Sources::Heavy);
        flow.set(0, [0, mask, first, interface, 0, heavy], 0)?;
        Ok(Self {
            cpu,
            object,
            frames: frames(case, testbed),
            flow,
        })
    }

    /// Returns nanoseconds of processor time.
    fn send(&mut self, barrier: &Barrier, count: u32) -> Result<f64> {
        let ready = stay_on(self.cpu).context("staying on one processor");
        barrier.wait();
        ready?;
        let before = processor_time()?;
        // The kinds come one after the other, because a call takes half a millisecond.
        for (kind, frame) in &self.frames {
            let mut flow = self.flow.get(&0, 0)?;
            flow[HEADER_SUM] = header_sum(frame);
            self.flow.set(0, flow, 0)?;
            let options = TestRunOptions {
                data_in: Some(frame),
                repeat: portion(count, kind.share),
                // Applies the program's actions, so that redirected frames are transmitted.
                attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
                ..TestRunOptions::new()
            };
            let run = self.object.xdp()?.test_run(options);
            run.context("the kernel's test-run with live frames (Linux 5.18)")?;
        }
        Ok(processor_time()? - before)
    }
}

/// The sum of an IPv4 header's words, without the checksum and the source.
fn header_sum(frame: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(u16::from_be_bytes([pair[0], pair[1]]));
    let header = &frame[ETHERNET..ETHERNET + IPV4];
    let words = header.chunks_exact(2).map(word).enumerate();
    words
        .filter(|(index, _)| !(5..8).contains(index))
        .map(|(_, word)| word)
        .sum()
}
