//! Finds out the settings in force: sends packets of a new source, and counts those that pass.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use crate::{hosts::Hosts, raw::Raw};

/// Sends packets from the client to the server of two hosts.
#[derive(Debug)]
pub struct Probe<'h> {
    hosts: &'h Hosts,
    from: Raw,
    to: Raw,
    /// Number of new sources until now.
    count: AtomicU32,
}

/// Packets of a probe. No test has a larger burst.
pub const SENT: usize = 10;

/// Longest time for the frame at the end of a probe, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

impl<'h> Probe<'h> {
    /// A probe that has sent nothing.
    pub fn new(hosts: &'h Hosts) -> Self {
        Self {
            hosts,
            from: Raw::open(&hosts.client),
            to: Raw::open(&hosts.server),
            count: AtomicU32::new(0),
        }
    }

    /// A new source.
    pub fn stranger(&self) -> IpAddr {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 1)) + number).into()
    }

    /// Number of [`SENT`] packets of a new source that pass: its whole burst, or all if no limit applies.
    pub fn burst(&self) -> usize {
        self.passed(self.stranger())
    }

    /// Number of [`SENT`] packets of `source` that pass.
    pub fn passed(&self, source: IpAddr) -> usize {
        self.passed_of(source, SENT)
    }

    /// Number of `count` packets of `source` that pass.
    pub fn passed_of(&self, source: IpAddr, count: usize) -> usize {
        let frame = self.hosts.frame(source).bytes();
        (0..count).for_each(|_| self.from.send(&frame));
        let last = self.last();
        // The driver drops packets in flight while a program is detached.
        for _ in 0..10 {
            self.from.send(&last);
            if let Some(frames) = self.to.receive_until(&last, PATIENCE) {
                return frames.iter().filter(|other| **other == frame).count();
            }
        }
        panic!("the last frame, which is not IP, did not arrive");
    }

    /// The last frame of a probe. It passes under any settings, because it is not IP.
    fn last(&self) -> Vec<u8> {
        /// EtherType for local experiments (IEEE 802).
        const LOCAL: [u8; 2] = [0x88, 0xb5];
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let (from, destination) = (self.hosts.client.mac, self.hosts.server.mac);
        let mut frame = [&destination[..], &from, &LOCAL, &number.to_be_bytes()].concat();
        frame.resize(60, 0);
        frame
    }
}
