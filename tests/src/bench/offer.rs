//! Sends packets from the kernel of one host to the other host, and measures the time.

use std::{
    net::IpAddr,
    os::fd::{AsFd as _, BorrowedFd},
    sync::Barrier,
    thread,
};

use anyhow::{Context as _, Result, bail};
use aya::maps::{Array, MapData};
use limiter_tests::packet::Frame;
use limiter_user::kernel::sys::bpf;

use super::{
    case::{Case, Cpus, Family, Sources},
    machine::{processor_time, stay_on},
    object::{Constants, Object},
    testbed::{Counters, Testbed},
};

/// A sender on one processor.
struct Sender {
    cpu: usize,
    object: Object,
    frame: Vec<u8>,
    /// Keeps the position among the sources.
    _flow: Array<MapData, [u64; 6]>,
}

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
    pub fn send(&self, testbed: &Testbed, count: u32) -> Result<Turn> {
        let before = testbed.counters()?;
        let barrier = Barrier::new(self.0.len());
        let times: Vec<f64> = thread::scope(|scope| {
            let running: Vec<_> = self
                .0
                .iter()
                .map(|sender| {
                    let (barrier, client) = (&barrier, &testbed.client.namespace);
                    scope.spawn(move || client.run(|| sender.send(barrier, count))?)
                })
                .collect();
            let times = running.into_iter().map(|thread| thread.join().unwrap());
            times.collect::<Result<_>>()
        })?;
        let Counters { arrived, delivered } = testbed.counters()?;
        let packets = u64::from(count) * self.0.len() as u64;
        let arrived = arrived - before.arrived;
        if arrived != packets {
            bail!("{packets} packets were sent and {arrived} arrived: a figure would be wrong");
        }
        Ok(Turn {
            nanoseconds: times.iter().sum::<f64>() / self.0.len() as f64 / f64::from(count),
            sent: packets,
            delivered: delivered - before.delivered,
        })
    }
}

/// Runs a program alone, on one packet again and again. The last verdict counts for all.
pub fn repeat(program: BorrowedFd<'_>, case: Case, testbed: &Testbed, count: u32) -> Result<Turn> {
    let mut frame = frame(case.family, testbed);
    let run = bpf::test_run(program, &mut frame, 0, count).context("the kernel's test-run")?;
    if ![DROP, PASS].contains(&run.action) {
        bail!("the program has returned {}", run.action);
    }
    let sent = u64::from(count);
    Ok(Turn {
        nanoseconds: run.nanoseconds.into(),
        sent,
        delivered: if run.action == PASS { sent } else { 0 },
    })
}

impl Sender {
    fn new(case: Case, testbed: &Testbed, index: u32, cpu: usize) -> Result<Self> {
        let program = match case.family {
            Family::Ipv4 => "send_ipv4",
            Family::Ipv6 => "send_ipv6",
        };
        let frame = frame(case.family, testbed);
        let mut object = Object::load(program, &Constants::none())?;
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
        flow.set(0, [0, mask, first, interface, header_sum(&frame), heavy], 0)?;
        Ok(Self {
            cpu,
            object,
            frame,
            _flow: flow,
        })
    }

    /// Returns nanoseconds of processor time.
    fn send(&self, barrier: &Barrier, count: u32) -> Result<f64> {
        let ready = stay_on(self.cpu).context("staying on one processor");
        barrier.wait();
        ready?;
        let program = self.object.program()?;
        let before = processor_time()?;
        bpf::test_run_live(program.as_fd(), &self.frame, count, BATCH)
            .context("the kernel's test-run with live frames (Linux 5.18)")?;
        Ok(processor_time()? - before)
    }
}

const ETHERNET: usize = 14;
const IPV4: usize = 20;

/// A UDP packet to the server.
fn frame(family: Family, testbed: &Testbed) -> Vec<u8> {
    let frame = Frame {
        macs: (testbed.client.mac, testbed.server.mac),
        ..Frame::from(family.first_source())
    };
    let mut bytes = frame.bytes();
    if family == Family::Ipv4 {
        // Leaves out the UDP checksum, which would differ for each source.
        const CHECKSUM: usize = ETHERNET + IPV4 + 6;
        bytes[CHECKSUM..CHECKSUM + 2].fill(0);
    }
    bytes
}

/// The sum of an IPv4 header's words, without the checksum and the source.
fn header_sum(frame: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(u16::from_be_bytes([pair[0], pair[1]]));
    let header = &frame[ETHERNET..ETHERNET + IPV4];
    let words = header.chunks_exact(2).map(word).enumerate();
    words
        .filter(|(at, _)| !(5..8).contains(at))
        .map(|(_, word)| word)
        .sum()
}
