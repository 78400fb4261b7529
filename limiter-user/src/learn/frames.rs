//! Frames of a capture, as the program that watches would have told of them.

use std::net::IpAddr;

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use limiter_common::{
    counters::Count,
    learn::{Flow, MASK, Totals},
    table::Seed,
};

use super::{Bounds, Sampler, Seen, Watched};
use crate::config::key;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// IP, from a source to a service.
    Ip(Flow),
    /// It says that it is IP (or that a tag follows), and cannot be.
    Malformed,
    /// Anything else.
    NotIp,
}

/// Looks at a frame, from the Ethernet header on, which may be cut off anywhere.
#[must_use]
pub fn look(frame: &[u8]) -> What {
    let Some((ether_type, at)) = innermost(frame) else {
        return What::Malformed;
    };
    if ether_type != EtherType::IPV4 && ether_type != EtherType::IPV6 {
        return What::NotIp;
    }
    let sliced = LaxSlicedPacket::from_ether_type(ether_type, &frame[at..]);
    // The library goes by the version that the header says.
    let (source, protocol) = match (ether_type, &sliced.net) {
        (EtherType::IPV4, Some(LaxNetSlice::Ipv4(ip))) => (
            IpAddr::V4(ip.header().source_addr()),
            ip.payload().ip_number,
        ),
        (EtherType::IPV6, Some(LaxNetSlice::Ipv6(ip))) => (
            IpAddr::V6(ip.header().source_addr()),
            ip.payload().ip_number,
        ),
        _ => return What::Malformed,
    };
    let (port, opens) = match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            let opens = tcp.syn() && !tcp.ack() && !tcp.rst() && !tcp.fin();
            (tcp.destination_port(), opens)
        }
        Some(TransportSlice::Udp(udp)) => (udp.destination_port(), false),
        _ => (0, false),
    };
    let address = key::address(source);
    let masked = MASK.key(0, &address, 0).address;
    What::Ip(Flow::new(
        masked,
        address.family,
        protocol.0.into(),
        port,
        opens,
    ))
}

/// The type behind up to two tags, and where what it tells of begins; none where the frame ends within them.
fn innermost(frame: &[u8]) -> Option<(EtherType, usize)> {
    const TAGS: [EtherType; 2] = [EtherType::VLAN_TAGGED_FRAME, EtherType::PROVIDER_BRIDGING];
    let mut at = 12;
    for tags in 0.. {
        let two = frame.get(at..at + 2)?;
        let ether_type = EtherType(u16::from_be_bytes([two[0], two[1]]));
        if tags == 2 || !TAGS.contains(&ether_type) {
            return Some((ether_type, at + 2));
        }
        at += 4;
    }
    None
}

/// What is learnt from frames, one after the other.
#[derive(Debug)]
pub struct FromFrames {
    sampler: Sampler,
    totals: Totals,
    first: Option<u64>,
    last: u64,
}

impl FromFrames {
    /// Nothing yet.
    #[must_use]
    pub fn new(seed: Seed, bounds: Bounds) -> Self {
        Self {
            sampler: Sampler::new(seed, bounds),
            totals: Totals::default(),
            first: None,
            last: 0,
        }
    }

    /// Takes in a frame of `length` bytes, the first of which are `frame`, that came at `time` (nanoseconds, no
    /// earlier than the one before).
    pub fn see(&mut self, time: u64, frame: &[u8], length: u64) {
        self.first.get_or_insert(time);
        self.last = self.last.max(time);
        let count = Count {
            packets: 1,
            bytes: length,
        };
        match look(frame) {
            What::Ip(flow) => {
                self.totals.seen = self.totals.seen + count;
                self.sampler.see(&Seen {
                    time,
                    spread: 0,
                    flow,
                    count,
                });
            }
            What::Malformed => self.totals.malformed = self.totals.malformed + count,
            What::NotIp => self.totals.not_ip = self.totals.not_ip + count,
        }
    }

    /// All of them.
    #[must_use]
    pub fn finish(self) -> Watched {
        let begun = self.first.unwrap_or(0);
        Watched {
            sampler: self.sampler,
            totals: self.totals,
            begun,
            duration: self.last.saturating_sub(begun),
        }
    }
}
