//! Sends packets from the client at an even rate, and records when each packet was sent and processed.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use limiter_kernel::sys::clock;

use super::{
    Network,
    network::{MACS, Received},
};
use crate::{cpus::pin_to, eventually, hosts::SERVER, packet::Ends, raw::Raw};

/// Packets to send.
#[derive(Clone, Debug)]
pub struct Load {
    /// Sources. Each sends the same number of packets. Their order changes every round.
    pub sources: Vec<Ipv4Addr>,
    /// Packets per second, of all sources together.
    pub per_second: u32,
    /// Number of packets.
    pub packets: u32,
}

impl Load {
    /// Packets at a rate from one source, for some time.
    pub fn of(source: Ipv4Addr, per_second: u32, time: Duration) -> Self {
        Self::of_many(vec![source], per_second, time)
    }

    /// Packets from several sources that share the rate.
    pub fn of_many(sources: Vec<Ipv4Addr>, per_second: u32, time: Duration) -> Self {
        let packets = f64::from(per_second) * time.as_secs_f64();
        Self {
            sources,
            per_second,
            packets: packets.round() as u32,
        }
    }

    /// Packets of one source without a pause.
    pub fn at_once(source: Ipv4Addr, packets: u32) -> Self {
        Self {
            packets,
            ..Self::of(source, 1_000_000, Duration::ZERO)
        }
    }

    /// The index of each packet's source in `sources`. In a fixed order, each of three sources would always reach the
    /// same host, because the router counts packets.
    fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (sources, packets) = (self.sources.len(), self.packets as usize);
        let mut random = fastrand::Rng::with_seed(1);
        let rounds = (0..packets.div_ceil(sources)).flat_map(move |_| {
            let mut round: Vec<_> = (0..sources).collect();
            random.shuffle(&mut round);
            round
        });
        rounds.take(packets)
    }
}

/// A sent packet. Times are in nanoseconds of the program's clock.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Index of its source in the load.
    pub source: usize,
    /// A time before it was sent, and a time after its verdict.
    pub between: (u64, u64),
}

/// Sent packets.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Packets in the order of sending.
    pub packets: Vec<Packet>,
}

impl Sent {
    /// Nanoseconds from before the first packet was sent until after the last verdict.
    pub fn longest(&self) -> u64 {
        self.packets[self.packets.len() - 1].between.1 - self.packets[0].between.0
    }

    /// The times of the packets that `which` selects by index.
    pub fn times(&self, which: impl Fn(usize) -> bool) -> Vec<(u64, u64)> {
        let chosen = self.packets.iter().enumerate();
        let chosen = chosen.filter(|(place, _)| which(*place));
        chosen.map(|(_, packet)| packet.between).collect()
    }
}

/// A sender in another thread.
#[derive(Debug)]
pub struct Stream {
    thread: Option<JoinHandle<Sent>>,
    so_far: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Stream {
    pub(super) fn start(network: &Network, load: &Load) -> Self {
        let sender = Sender {
            wire: Raw::to_send(&network.client),
            received: Arc::clone(&network.received),
            frames: load.sources.iter().map(|source| frame(*source)).collect(),
            load: load.clone(),
            so_far: Arc::default(),
            stop: Arc::default(),
        };
        let (so_far, stop) = (Arc::clone(&sender.so_far), Arc::clone(&sender.stop));
        Self {
            thread: Some(thread::spawn(move || sender.run())),
            so_far,
            stop,
        }
    }

    /// Waits until at least this number of packets have been sent and processed.
    pub fn wait_for(&self, packets: u64) {
        eventually("packets are sent and processed", || {
            self.so_far.load(Ordering::Acquire) >= packets
        });
    }

    /// Waits for the last packet.
    pub fn finish(mut self) -> Sent {
        let thread = self.thread.take().unwrap();
        thread.join().expect("the packets were sent")
    }

    /// Stops sending. Only packets in flight still arrive.
    pub fn stop(self) -> Sent {
        self.stop.store(true, Ordering::Relaxed);
        self.finish()
    }
}

impl Drop for Stream {
    /// Stops sending before the test's network is removed.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A UDP packet from `source` to the hosts' common address.
fn frame(source: Ipv4Addr) -> Vec<u8> {
    let ends = Ends {
        macs: MACS,
        from: SocketAddr::new(IpAddr::V4(source), 40_000),
        to: SocketAddr::new(SERVER, 9),
    };
    ends.udp(&[0; 18])
}

struct Sender {
    wire: Raw,
    received: Arc<Received>,
    load: Load,
    frames: Vec<Vec<u8>>,
    so_far: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

/// Maximum number of packets in flight. A veth ring holds 256 and drops further ones.
const ON_THE_WAY: usize = 64;
/// Longest time between two readings of the verdicts.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum time of a packet.
const PATIENCE: Duration = Duration::from_secs(20);

impl Sender {
    fn run(self) -> Sent {
        // One processor delivers packets in order.
        pin_to(1);
        let interval = Duration::from_secs(1) / self.load.per_second;
        let before = self.received.packets();
        let (start, mut looked) = (Instant::now(), Instant::now());
        let (mut packets, mut decided) = (Vec::new(), 0);
        for (source, place) in self.load.order().zip(0_u32..) {
            wait_until(start + interval * place);
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let between = (clock::now().unwrap(), 0);
            self.wire.send(&self.frames[source]);
            packets.push(Packet { source, between });
            if packets.len() - decided == ON_THE_WAY || looked.elapsed() > LOOK {
                decided = self.settle(before, &mut packets, decided);
                looked = Instant::now();
            }
        }
        self.settle(before, &mut packets, decided);
        Sent { packets }
    }

    /// Waits until all packets have been processed, and sets that time for packets from number `from` on. Returns the
    /// number of packets.
    fn settle(&self, before: u64, packets: &mut [Packet], from: usize) -> usize {
        let (start, sent) = (Instant::now(), packets.len() as u64);
        while self.received.packets() < before + sent {
            let missing = before + sent - self.received.packets();
            assert!(
                start.elapsed() < PATIENCE,
                "{missing} of {sent} packets are lost"
            );
            thread::yield_now();
        }
        let now = clock::now().unwrap();
        packets[from..]
            .iter_mut()
            .for_each(|packet| packet.between.1 = now);
        self.so_far.store(sent, Ordering::Release);
        packets.len()
    }
}

fn wait_until(then: Instant) {
    let left = then.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}
