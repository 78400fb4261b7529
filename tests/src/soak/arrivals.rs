//! Counts the packets that pass the limiter, by source.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use super::frames::{heavy, slow, source, source_of, touched};
use crate::{eventually, hosts::Hosts, raw::Raw};

/// The counts of packets that the server has received.
#[derive(Debug)]
pub struct Arrivals {
    wire: Raw,
    all: AtomicU64,
    /// Counts by source, of the sources that the soak checks.
    of: HashMap<IpAddr, AtomicU64>,
    /// Number of times that the socket was empty.
    pauses: AtomicU64,
}

impl Arrivals {
    pub fn new(hosts: &Hosts) -> Self {
        let known = heavy().into_iter().chain(slow()).chain(touched());
        Self {
            wire: Raw::open(&hosts.server),
            all: AtomicU64::new(0),
            of: known
                .map(|known| (source(known), AtomicU64::new(0)))
                .collect(),
            pauses: AtomicU64::new(0),
        }
    }

    /// Receives until `done`, including the frames that have arrived by then.
    pub fn receive(&self, done: &AtomicBool) {
        let mut buffer = vec![0; 256];
        loop {
            let last = done.load(Ordering::Relaxed);
            while let Some((length, kind)) = self.wire.receive_into(&mut buffer) {
                if kind != libc::PACKET_OUTGOING {
                    self.count(&buffer[..length]);
                }
            }
            self.pauses.fetch_add(1, Ordering::Release);
            if last {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn count(&self, frame: &[u8]) {
        self.all.fetch_add(1, Ordering::Relaxed);
        if let Some(counted) = source_of(frame).and_then(|source| self.of.get(&source)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of packets received.
    pub fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Number of packets received from this source.
    pub fn from(&self, address: IpAddr) -> u64 {
        self.of[&source(address)].load(Ordering::Relaxed)
    }

    /// Frames lost because the socket had no room.
    pub fn lost(&self) -> u64 {
        self.wire.lost()
    }

    /// Waits until every packet that passed before the call is counted, and the current program decides about all
    /// packets. Closing a packet socket waits for all packets that are being received: `packet_release` calls
    /// `synchronize_net`.
    pub fn settle(&self, hosts: &Hosts) {
        drop(Raw::open(&hosts.server));
        let pauses = self.pauses.load(Ordering::Acquire);
        // The next pause may have begun before the call.
        eventually("all received packets are counted", || {
            self.pauses.load(Ordering::Acquire) >= pauses + 2
        });
    }
}
