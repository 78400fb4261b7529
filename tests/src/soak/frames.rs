//! Makes the sources and frames of the soak.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{
    hosts::{Hosts, SERVER},
    packet::{Ends, Frame, Segment, TAGS, arp},
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

/// Tagged, fragmented, large, malformed and other frames, from a few sources.
fn odd(hosts: &Hosts) -> Vec<Vec<u8>> {
    let of = |host: u8| IpAddr::V4(Ipv4Addr::new(100, 64, 0, host));
    let six = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 9));
    let frame = |source| hosts.frame(source);
    let made = |frame: Frame| frame.bytes();
    let tagged = |source, tags| {
        made(Frame {
            tags,
            ..frame(source)
        })
    };
    let sized = |source, payload| {
        made(Frame {
            payload,
            ..frame(source)
        })
    };
    let ends = |host, port| Ends {
        macs: (hosts.client.mac, hosts.server.mac),
        from: SocketAddr::new(of(host), 40_000),
        to: SocketAddr::new(SERVER, port),
    };
    // Bytes 20 and 21 of an untagged IPv4 frame are the "more fragments" bit and the offset.
    let with = |host, at: usize, byte: u8| {
        let mut bytes = frame(of(host)).bytes();
        bytes[at] = byte;
        bytes
    };
    let cut = |source, length| {
        let mut bytes = frame(source).bytes();
        bytes.truncate(length);
        bytes
    };
    vec![
        tagged(of(1), TAGS[1]),
        tagged(of(2), TAGS[2]),
        tagged(six, TAGS[1]),
        sized(of(3), 1_400),
        sized(of(4), 5_000),
        sized(six, 8_000),
        with(5, 20, 0x20),
        with(5, 21, 3),
        with(6, 14, 0x44),
        with(6, 14, 0x65),
        cut(of(7), 30),
        cut(six, 40),
        arp(),
        ends(8, 53).udp(&[1; 40]),
        ends(9, 55).udp(&[2; 40]),
        ends(10, 80).tcp(Segment::Syn),
        ends(10, 80).tcp(Segment::Data),
    ]
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
