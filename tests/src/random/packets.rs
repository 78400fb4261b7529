//! Draws random frames near the boundaries of settings (ends of prefixes, ports, flags, fragments), and malformed ones.

use std::net::{IpAddr, Ipv4Addr};

use fastrand::Rng;
use limiter_user::config::{Settings, matches::PortRange};

use super::{
    frame::Frame,
    one, percent,
    settings::{FRAME_MAX, IPV4, IPV6, PORTS, PROTOCOLS},
};

const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
/// The longest payload.
const PAYLOAD_MAX: usize = 1_100;

/// A frame: mostly valid; some truncated, some with a byte changed.
pub fn frame(rng: &mut Rng, settings: &Settings) -> Vec<u8> {
    let mut bytes = match rng.u8(0..100) {
        0..=3 => arp(rng, settings),
        4 => other(rng),
        _ => ip(rng, settings).bytes(),
    };
    match rng.u8(0..100) {
        0..=4 => bytes.truncate(rng.usize(14..=bytes.len())),
        5..=8 => {
            let at = rng.usize(12..bytes.len().min(90));
            bytes[at] = rng.u8(..);
        }
        9 => {
            let at = rng.usize(12..bytes.len().min(60));
            bytes[at..].iter_mut().for_each(|byte| *byte = rng.u8(..));
        }
        _ => {}
    }
    bytes.truncate(usize::try_from(FRAME_MAX).unwrap());
    bytes
}

fn tags(rng: &mut Rng) -> Vec<u16> {
    let number = *one(rng, &[0, 0, 0, 0, 0, 1, 1, 2, 2, 3]);
    (0..number)
        .map(|_| *one(rng, &[VLAN, SERVICE_VLAN]))
        .collect()
}

/// An address from a small pool, so that buckets are used again; or an address at the end of a prefix or next to it.
fn source(rng: &mut Rng, settings: &Settings) -> IpAddr {
    let prefixes: Vec<_> = settings.lists.all().flat_map(|(_, of)| of).collect();
    if !prefixes.is_empty() && percent(rng, 40) {
        let net = one(rng, &prefixes);
        let end = if rng.bool() {
            net.network()
        } else {
            net.broadcast()
        };
        let beside = *one(rng, &[0, 0, 0, 1, u128::MAX]);
        return match end {
            IpAddr::V4(v4) => IpAddr::V4(u32::from(v4).wrapping_add(beside as u32).into()),
            IpAddr::V6(v6) => IpAddr::V6(u128::from(v6).wrapping_add(beside).into()),
        };
    }
    let flip = u128::from(percent(rng, 25));
    if rng.bool() {
        let bits = (flip as u32) << rng.u32(0..32);
        IpAddr::V4((u32::from(*one(rng, &IPV4)) ^ bits).into())
    } else {
        IpAddr::V6((u128::from(*one(rng, &IPV6)) ^ flip << rng.u32(0..128)).into())
    }
}

/// A port that a limit names, or one next to it.
fn port(rng: &mut Rng, settings: &Settings) -> u16 {
    let limit = one(rng, &settings.limits);
    let ranges: Vec<PortRange> = [&limit.matches.destination_port, &limit.matches.source_port]
        .into_iter()
        .flat_map(|ports| ports.0.clone())
        .collect();
    let near = if ranges.is_empty() || percent(rng, 30) {
        *one(rng, &PORTS)
    } else {
        let range = one(rng, &ranges);
        *one(rng, &[range.first, range.last])
    };
    near.wrapping_add(*one(rng, &[0, 0, 0, 1, u16::MAX]))
}

fn ip(rng: &mut Rng, settings: &Settings) -> Frame {
    let (source, tags) = (source(rng, settings), tags(rng));
    let long = percent(rng, 10);
    let payload = rng.usize(0..if long { PAYLOAD_MAX } else { 40 });
    let mut frame = Frame {
        tags,
        source,
        protocol: *one(rng, &PROTOCOLS),
        ports: (port(rng, settings), port(rng, settings)),
        flags: *one(rng, &[2, 2, 18, 16, 41, 4, 0x82, 0xc2, 0])
            ^ (u8::from(percent(rng, 10)) << rng.u32(0..8)),
        icmp: *one(rng, &[8, 128, 132, 133, 135, 136, 137, 138]),
        hops: *one(rng, &[64, 255, 254]),
        fragment: percent(rng, 15).then(|| (*one(rng, &[0, 0, 1, 0x1000, 0x1fff]), rng.bool())),
        options: if percent(rng, 10) { rng.u8(1..=10) } else { 0 },
        extensions: Vec::new(),
        payload,
    };
    if percent(rng, 15) {
        let many = percent(rng, 20);
        let number = rng.usize(1..if many { 11 } else { 4 });
        frame.extensions = (0..number)
            .map(|_| {
                (
                    *one(rng, &[0, 43, 51, 60]),
                    if percent(rng, 10) { rng.u8(0..20) } else { 0 },
                )
            })
            .collect();
    }
    match rng.u8(0..20) {
        0 => (frame.protocol, frame.hops) = (58, 255),
        1 => (frame.protocol, frame.ports.1) = (17, *one(rng, &[67, 68, 546, 547])),
        _ => {}
    }
    frame
}

fn arp(rng: &mut Rng, settings: &Settings) -> Vec<u8> {
    let sender = match source(rng, settings) {
        IpAddr::V4(sender) => sender,
        IpAddr::V6(_) => Ipv4Addr::new(192, 0, 2, 7),
    };
    let mut bytes = vec![0xff; 12];
    for tag in tags(rng) {
        bytes.extend(tag.to_be_bytes());
        bytes.extend([0, 7]);
    }
    bytes.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1, 2, 2, 2, 2, 2, 2]);
    bytes.extend(sender.octets());
    bytes.resize(bytes.len() + 28, 0);
    bytes
}

fn other(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    bytes.extend(one(rng, &[0x88cc_u16, 0x8864, 0x0800, 0x86dd, VLAN]).to_be_bytes());
    bytes.resize(bytes.len() + rng.usize(0..64), 0x45);
    bytes
}
