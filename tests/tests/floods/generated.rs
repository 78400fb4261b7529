//! Generated traffic: three kinds of ordinary hosts, and ten attacks.

use std::net::Ipv4Addr;

use fastrand::Rng;
use limiter_tests::captures::Captured;

/// The host.
pub const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 23);

/// A packet, and whether it belongs to an open TCP connection.
#[derive(Clone, Debug)]
pub struct Made {
    pub frame: Vec<u8>,
    pub is_connection: bool,
}

fn loose(frame: Vec<u8>) -> Made {
    Made {
        frame,
        is_connection: false,
    }
}

/// The ends and the fields of a packet to the host.
#[derive(Clone, Copy, Debug)]
struct Head {
    source: Ipv4Addr,
    ttl: u8,
    /// The source port, and that of the host.
    ports: (u16, u16),
}

/// An Ethernet frame with an IPv4 packet. `place`: flags and offset of a fragment.
fn ipv4(head: Head, protocol: u8, place: u16, id: u16, behind: &[u8]) -> Vec<u8> {
    let length = 20 + behind.len() as u16;
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend(id.to_be_bytes());
    frame.extend(place.to_be_bytes());
    frame.extend([head.ttl, protocol, 0, 0]);
    frame.extend(head.source.octets());
    frame.extend(HOST.octets());
    frame.extend(behind);
    frame
}

fn udp(head: Head, id: u16, payload: &[u8]) -> Vec<u8> {
    let mut behind = head.ports.0.to_be_bytes().to_vec();
    behind.extend(head.ports.1.to_be_bytes());
    behind.extend((8 + payload.len() as u16).to_be_bytes());
    behind.extend([0, 0]);
    behind.extend(payload);
    ipv4(head, 17, 0, id, &behind)
}

const SYN: u8 = 2;
const ACK: u8 = 16;
const PUSH: u8 = 8;

/// A segment with so many bytes of options.
fn tcp(head: Head, rng: &mut Rng, flags: u8, options: u8, payload: &[u8]) -> Vec<u8> {
    let mut behind = head.ports.0.to_be_bytes().to_vec();
    behind.extend(head.ports.1.to_be_bytes());
    behind.extend(rng.u64(..).to_be_bytes());
    behind.extend([((20 + options) / 4) << 4, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
    behind.extend(vec![1; options.into()]);
    behind.extend(payload);
    ipv4(head, 6, 0x4000, rng.u16(..), &behind)
}

fn bytes(rng: &mut Rng, count: usize) -> Vec<u8> {
    (0..count).map(|_| rng.u8(..)).collect()
}

/// A made-up source.
pub fn anywhere(rng: &mut Rng) -> Ipv4Addr {
    Ipv4Addr::from(rng.u32(0x0100_0000..0xdf00_0000))
}

/// Kinds of ordinary hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordinary {
    Web,
    Dns,
    Game,
}

impl Ordinary {
    pub const ALL: [Self; 3] = [Self::Web, Self::Dns, Self::Game];

    /// So many packets. `made_up`: from made-up sources instead of clients.
    pub fn packets(self, rng: &mut Rng, count: usize, made_up: bool) -> Vec<Made> {
        let mut clients = Rng::with_seed(99);
        let clients: Vec<_> = (0..400)
            .map(|_| (anywhere(&mut clients), distance(&mut clients)))
            .collect();
        let mut packets = Vec::new();
        while packets.len() < count {
            let (source, ttl) = match made_up {
                true => (anywhere(rng), distance(rng)),
                false => clients[rng.usize(..clients.len())],
            };
            let head = Head {
                source,
                ttl,
                ports: (rng.u16(1_024..), 0),
            };
            match self {
                Self::Web => web(rng, head, &mut packets),
                Self::Dns => dns(rng, head, &mut packets),
                Self::Game => game(rng, head, &mut packets),
            }
        }
        packets.truncate(count);
        packets
    }
}

/// TTLs of packets from Linux and Windows, some hops away.
pub fn distance(rng: &mut Rng) -> u8 {
    let begin = [64, 128, 255][rng.usize(..3)];
    begin - rng.u8(3..24)
}

/// A connection of a web client, with more segments than a flow has SYNs; now and then a request over QUIC, and answers that
/// the host asked for.
fn web(rng: &mut Rng, head: Head, packets: &mut Vec<Made>) {
    let head_at = |port| Head {
        ports: (head.ports.0, port),
        ..head
    };
    match rng.u8(..10) {
        0..6 => {
            let port = if rng.bool() { 443 } else { 80 };
            let options = [12, 20][rng.usize(..2)];
            packets.push(loose(tcp(head_at(port), rng, SYN, options, &[])));
            for number in 0..rng.u8(2..6) {
                let length = rng.usize(1..900);
                let payload = bytes(rng, if number % 2 == 0 { 0 } else { length });
                let flags = if payload.is_empty() { ACK } else { ACK | PUSH };
                packets.push(Made {
                    frame: tcp(head_at(port), rng, flags, 12, &payload),
                    is_connection: true,
                });
            }
        }
        6..8 => {
            let length = rng.usize(30..1_250);
            let payload = bytes(rng, length);
            packets.push(loose(udp(head_at(443), rng.u16(..), &payload)));
        }
        8 => packets.push(loose(resolver(rng))),
        _ => {
            let mut message = vec![8, 0, 0, 0];
            message.extend(bytes(rng, 60));
            packets.push(loose(ipv4(head, 1, 0, rng.u16(..), &message)));
        }
    }
}

/// An answer of the host's resolver.
fn resolver(rng: &mut Rng) -> Vec<u8> {
    let head = Head {
        source: Ipv4Addr::new(9, 9, 9, 9),
        ttl: 57,
        ports: (53, rng.u16(32_768..)),
    };
    let length = rng.usize(40..300);
    let mut payload = bytes(rng, length);
    payload[2..4].copy_from_slice(&[0x81, 0x80]);
    udp(head, rng.u16(..), &payload)
}

/// Questions to a name server, and a few connections.
fn dns(rng: &mut Rng, head: Head, packets: &mut Vec<Made>) {
    let head_at = |port| Head {
        ports: (head.ports.0, port),
        ..head
    };
    match rng.u8(..20) {
        0 => packets.push(loose(tcp(head_at(53), rng, SYN, 20, &[]))),
        1 => packets.push(loose(resolver(rng))),
        _ => {
            let length = rng.usize(29..75);
            let mut payload = bytes(rng, length);
            payload[2..4].copy_from_slice(if rng.bool() { &[1, 0] } else { &[0, 0x10] });
            packets.push(loose(udp(head_at(53), rng.u16(..), &payload)));
        }
    }
}

/// Moves of players, and questions of those who look for a game.
fn game(rng: &mut Rng, head: Head, packets: &mut Vec<Made>) {
    let head = Head {
        ports: (head.ports.0, 27_015),
        ..head
    };
    let payload = match rng.u8(..40) {
        0 => b"\xff\xff\xff\xffTSource Engine Query\0".to_vec(),
        1 => {
            packets.push(loose(resolver(rng)));
            return;
        }
        _ => {
            let length = rng.usize(20..220);
            let mut payload = bytes(rng, length);
            payload[0] &= 0x7f;
            payload
        }
    };
    packets.push(loose(udp(head, rng.u16(..), &payload)));
}

/// Attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    DnsReflection,
    NtpReflection,
    CldapReflection,
    SsdpReflection,
    MemcachedReflection,
    Syn,
    Ack,
    Fragments,
    GameQuery,
    RandomUdp,
    FewSources,
}

impl Attack {
    pub const ALL: [Self; 11] = [
        Self::DnsReflection,
        Self::NtpReflection,
        Self::CldapReflection,
        Self::SsdpReflection,
        Self::MemcachedReflection,
        Self::Syn,
        Self::Ack,
        Self::Fragments,
        Self::GameQuery,
        Self::RandomUdp,
        Self::FewSources,
    ];

    /// One packet of the attack.
    pub fn packet(self, rng: &mut Rng) -> Made {
        let made_up = Head {
            source: anywhere(rng),
            ttl: rng.u8(30..),
            ports: (rng.u16(1_024..), rng.u16(1..)),
        };
        // Some thousand hosts answer to the host's address.
        let mut reflectors = Rng::with_seed(rng.u64(..3_000));
        let answer = |port, asked| Head {
            source: anywhere(&mut reflectors),
            ttl: distance(&mut reflectors),
            ports: (port, asked),
        };
        let id = rng.u16(..);
        loose(match self {
            Self::DnsReflection => {
                let head = answer_at(answer, 53, rng);
                let length = rng.usize(1_000..1_450);
                let mut payload = bytes(rng, length);
                payload[2..4].copy_from_slice(&[0x81, 0x80]);
                udp(head, id, &payload)
            }
            Self::NtpReflection => {
                let mut payload = bytes(rng, 440);
                payload[..4].copy_from_slice(&[0xd7, 0, 3, 0x2a]);
                udp(answer_at(answer, 123, rng), id, &payload)
            }
            Self::CldapReflection => {
                let length = rng.usize(1_200..1_460);
                let mut payload = bytes(rng, length);
                payload[..4].copy_from_slice(&[0x30, 0x84, 0, 0]);
                udp(answer_at(answer, 389, rng), id, &payload)
            }
            Self::SsdpReflection => {
                let length = rng.usize(200..330);
                let mut payload = b"HTTP/1.1 200 OK\r\n".to_vec();
                payload.extend(bytes(rng, length));
                udp(answer_at(answer, 1_900, rng), id, &payload)
            }
            Self::MemcachedReflection => {
                let payload = bytes(rng, 1_400);
                udp(answer_at(answer, 11_211, rng), id, &payload)
            }
            Self::Syn => tcp(at(made_up, 443), rng, SYN, 0, &[]),
            Self::Ack => tcp(at(made_up, 80), rng, ACK, 0, &[]),
            Self::Fragments => {
                let payload = bytes(rng, 1_480);
                let place = 0x2000 | rng.u16(1..100);
                ipv4(made_up, 17, place, id, &payload)
            }
            Self::GameQuery => {
                let payload = b"\xff\xff\xff\xffTSource Engine Query\0";
                udp(at(made_up, 27_015), id, payload)
            }
            Self::RandomUdp => {
                let length = rng.usize(1..1_400);
                let payload = bytes(rng, length);
                udp(made_up, id, &payload)
            }
            Self::FewSources => {
                let source = Ipv4Addr::new(203, rng.u8(..4), 113, rng.u8(..3));
                let head = Head {
                    source,
                    ttl: 50 + source.octets()[1],
                    ports: (made_up.ports.0, 80),
                };
                tcp(head, rng, SYN, 20, &[])
            }
        })
    }
}

fn at(head: Head, port: u16) -> Head {
    Head {
        ports: (head.ports.0, port),
        ..head
    }
}

fn answer_at(answer: impl FnOnce(u16, u16) -> Head, port: u16, rng: &mut Rng) -> Head {
    answer(port, rng.u16(1_024..))
}

/// A capture of packets in the course of so many seconds.
pub fn capture(packets: &[Made], seconds: u64) -> Vec<Captured> {
    let pause = seconds * 1_000_000_000 / packets.len() as u64;
    let times = (0..).map(|number| 1_000_000_000_000 + number * pause);
    let captured = times.zip(packets);
    captured
        .map(|(time, made)| Captured {
            kept: made.frame.len().min(128),
            ..Captured::whole(time, made.frame.clone())
        })
        .collect()
}
