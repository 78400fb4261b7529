//! What comes out behind the limiter, counted by source.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use super::frames::{heavy, slow, source, source_of, touched};
use crate::{eventually, hosts::Hosts, raw::Raw};

/// Everything that the server has got.
#[derive(Debug)]
pub struct Arrivals {
    wire: Raw,
    all: AtomicU64,
    /// The sources that somebody looks at.
    of: HashMap<IpAddr, AtomicU64>,
    /// How often nothing more was there.
    pauses: AtomicU64,
}

impl Arrivals {
    /// From now on.
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

    /// Receives until `done`, and all that is there then.
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

    /// Packets that have come.
    pub fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Packets of this source that have come.
    pub fn from(&self, address: IpAddr) -> u64 {
        self.of[&source(address)].load(Ordering::Relaxed)
    }

    /// Frames for which the socket had no room.
    pub fn lost(&self) -> u64 {
        self.wire.lost()
    }

    /// Waits until everything is counted that was let through before the call, and every packet is decided about
    /// by the program that is in force now. Closing a packet socket waits for all packets that are being
    /// received: `packet_release` calls `synchronize_net`.
    pub fn settle(&self, hosts: &Hosts) {
        drop(Raw::open(&hosts.server));
        let pauses = self.pauses.load(Ordering::Acquire);
        // The next one may have begun before.
        eventually("all that has come is counted", || {
            self.pauses.load(Ordering::Acquire) >= pauses + 2
        });
    }
}
