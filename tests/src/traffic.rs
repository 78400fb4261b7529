//! Sends packets from the client, and counts their verdicts.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    eventually,
    hosts::{Hosts, SERVER},
    number,
    packet::Ends,
    raw::Raw,
};

/// Sends packets from the client to the server.
#[derive(Debug)]
pub struct Traffic<'h> {
    hosts: &'h Hosts,
    wire: Raw,
}

impl<'h> Traffic<'h> {
    /// A sender that has sent nothing.
    pub fn new(hosts: &'h Hosts) -> Self {
        Self {
            hosts,
            wire: Raw::open(&hosts.client),
        }
    }

    /// Sends frames. Returns how many passed, from the counters of `status`.
    pub fn send(&self, frames: &[&[u8]]) -> u64 {
        let packets = || {
            let status = self.hosts.status();
            ["seen", "passed"].map(|verdict| number(&status[verdict]["packets"]))
        };
        let [seen, before] = packets();
        frames.iter().for_each(|frame| self.wire.send(frame));
        let all = seen + frames.len() as u64;
        let mut after = before;
        eventually("all packets are seen", || {
            let [seen, passed] = packets();
            after = passed;
            seen == all
        });
        after - before
    }

    /// Sends `count` UDP packets from `source` to `port`. Returns how many passed.
    pub fn passed_to(&self, port: u16, source: &str, count: u64) -> u64 {
        let frame = udp(self.hosts, source.parse().unwrap(), port);
        self.send(&vec![&frame[..]; count as usize])
    }

    /// Sends packets to a port that no limit of the tests names. Returns how many passed.
    pub fn passed(&self, source: &str, count: u64) -> u64 {
        self.passed_to(9, source, count)
    }
}

/// A sender that repeats frames in turn until it is dropped.
#[derive(Debug)]
pub struct Flood {
    /// The flag to stop, and the number of frames sent.
    shared: Arc<(AtomicBool, AtomicU64)>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Starts to send, with this pause after each round.
    pub fn start(hosts: &Hosts, frames: Vec<Vec<u8>>, pause: Duration) -> Self {
        let (wire, shared) = (Raw::open(&hosts.client), Arc::default());
        let of_thread: Arc<(AtomicBool, AtomicU64)> = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let (stop, sent) = &*of_thread;
            while !stop.load(Ordering::Relaxed) {
                for frame in &frames {
                    wire.send(frame);
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(pause);
            }
        });
        Self {
            shared,
            thread: Some(thread),
        }
    }

    /// Number of frames sent until now.
    pub fn sent(&self) -> u64 {
        self.shared.1.load(Ordering::Relaxed)
    }

    /// Stops after a whole round. Returns the number of frames sent.
    pub fn end(mut self) -> u64 {
        self.shared.0.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.sent()
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.shared.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The sender fails if the wire is gone, which is no failure of the test.
            let _ = thread.join();
        }
    }
}

/// Addresses and ports of a packet from the client to the server. The server has no such IPv6 address.
pub fn ends(hosts: &Hosts, source: IpAddr, port: u16) -> Ends {
    let destination = match source {
        IpAddr::V4(_) => SERVER,
        IpAddr::V6(_) => [0xfd; 16].into(),
    };
    Ends {
        macs: (hosts.client.mac, hosts.server.mac),
        from: SocketAddr::new(source, 40_000),
        to: SocketAddr::new(destination, port),
    }
}

/// A UDP packet from the client to the server.
pub fn udp(hosts: &Hosts, source: IpAddr, port: u16) -> Vec<u8> {
    ends(hosts, source, port).udp(&[0; 18])
}
