//! Makes the sources and frames of the soak.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arbitrary::Unstructured;

use crate::{
    hosts::Hosts,
    packet::Frame,
    random::frames::{Pool, frame},
};

/// Source that is denied at times.
pub const DENIED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 200);
/// Source that is allowed at times.
pub const ALLOWED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 201);
/// Source that is reset at times.
pub const RESET: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 100);

/// Sources that always send far more than their limit.
pub fn heavy() -> Vec<IpAddr> {
    let four = (1..=4).map(|host| IpAddr::V4(Ipv4Addr::new(198, 51, 100, host)));
    let six = (1..=2).map(|net| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0x66, net, 0, 0, 0, 1)));
    four.chain(six).collect()
}

/// Sources that send less than their limit.
pub fn slow() -> Vec<IpAddr> {
    let four = (1..=4).map(|host| IpAddr::V4(Ipv4Addr::new(203, 0, 113, 100 + host)));
    let six = (1..=2).map(|net| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0x5, net, 0, 0, 0, 1)));
    four.chain(six).collect()
}

/// Heavy sources that commands affect at times.
pub fn touched() -> Vec<IpAddr> {
    [DENIED, ALLOWED, RESET].map(IpAddr::V4).to_vec()
}

/// The source of an address: the IPv4 address, or the IPv6 /64 network.
pub fn source(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
        four => four,
    }
}

/// The source of a received frame; none if it is not IP, or too short.
pub fn source_of(frame: &[u8]) -> Option<IpAddr> {
    let mut at = 12;
    let ether_type = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    while matches!(ether_type(at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    let bytes = |from: usize, length: usize| frame.get(at + 2 + from..at + 2 + from + length);
    Some(match ether_type(at)? {
        0x0800 => IpAddr::from(<[u8; 4]>::try_from(bytes(12, 4)?).unwrap()),
        0x86dd => source(IpAddr::from(<[u8; 16]>::try_from(bytes(8, 16)?).unwrap())),
        _ => return None,
    })
}

/// Frames that are sent repeatedly: of all heavy sources, and the odd frames.
pub fn usual(hosts: &Hosts) -> Vec<Vec<u8>> {
    let heavy = heavy().into_iter().chain(touched());
    let heavy: Vec<_> = heavy.map(|source| hosts.frame(source).bytes()).collect();
    let odd = odd(hosts);
    // Each odd frame is followed by one packet of every heavy source.
    odd.into_iter()
        .flat_map(|odd| heavy.iter().cloned().chain([odd]))
        .collect()
}

/// Large frames, and random ones: tagged, fragmented, malformed and others.
fn odd(hosts: &Hosts) -> Vec<Vec<u8>> {
    const RANDOM: usize = 20;
    let sized = |host: u8, payload| {
        let frame = hosts.frame(Ipv4Addr::new(100, 64, 0, host).into());
        Frame { payload, ..frame }.bytes()
    };
    let mut odd = vec![sized(1, 1_400), sized(2, 5_000)];
    let mut random = fastrand::Rng::with_seed(1);
    let pool = Pool {
        ipv4: vec![[192, 0, 2, 7], [203, 0, 113, 5]],
        payloads: vec![0, 18, 64],
        ..Pool::default()
    };
    odd.extend((0..RANDOM).map(|_| {
        let bytes: [u8; 256] = std::array::from_fn(|_| random.u8(..));
        let mut frame = frame(&mut Unstructured::new(&bytes), &pool).unwrap();
        frame[..6].copy_from_slice(&hosts.server.mac);
        frame[6..12].copy_from_slice(&hosts.client.mac);
        frame
    }));
    odd
}

/// Frames of made-up sources.
#[derive(Debug)]
pub struct Spoofed {
    four: Vec<u8>,
    six: Vec<u8>,
    random: fastrand::Rng,
}

impl Spoofed {
    /// Frames drawn with `seed`.
    pub fn new(hosts: &Hosts, seed: u64) -> Self {
        let any = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 0, 1));
        Self {
            four: hosts.frame(Ipv4Addr::new(10, 0, 0, 0).into()).bytes(),
            six: hosts.frame(any).bytes(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// The next frame, with a source that hardly ever repeats.
    pub fn next(&mut self) -> &[u8] {
        let random = self.random.u32(..).to_be_bytes();
        if random[0].is_multiple_of(4) {
            // The last 16 bits of the network's prefix, and the 16 before.
            self.six[26..30].copy_from_slice(&random);
            return &self.six;
        }
        // The source is in 10.0.0.0/8. The checksum of the header is not adapted: the server drops the frame behind
        // limiter.
        self.four[27..30].copy_from_slice(&random[1..]);
        &self.four
    }
}
