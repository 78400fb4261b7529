//! Draws random frames near the boundaries of settings (ends of prefixes, ports), some of them malformed.

use std::array;

use arbitrary::Unstructured;
use fastrand::Rng;
use ipnet::IpNet;
use limiter_config::{Settings, matches::PortRange};

use super::{
    frames::{self, Pool},
    one, percent,
    settings::{IPV4, IPV6, PORTS},
};

/// The longest payload.
const PAYLOAD_MAX: usize = 1_100;

/// A frame.
pub fn frame(rng: &mut Rng, settings: &Settings) -> Vec<u8> {
    let long = percent(rng, 10);
    let pool = Pool {
        ipv4: (0..5).map(|_| ipv4(rng, settings).to_be_bytes()).collect(),
        ipv6: (0..5).map(|_| ipv6(rng, settings)).collect(),
        ports: (0..6).map(|_| port(rng, settings)).collect(),
        payloads: vec![rng.usize(0..if long { PAYLOAD_MAX } else { 40 })],
    };
    let bytes: [u8; 256] = array::from_fn(|_| rng.u8(..));
    frames::frame(&mut Unstructured::new(&bytes), &pool).unwrap()
}

/// A prefix on one of the lists, in 40 % of cases.
fn listed(rng: &mut Rng, settings: &Settings) -> Option<IpNet> {
    let prefixes: Vec<_> = settings
        .lists
        .all()
        .flat_map(|(_, entries)| entries)
        .collect();
    (!prefixes.is_empty() && percent(rng, 40)).then(|| *one(rng, &prefixes))
}

/// An address from a small pool, so that buckets are used again; or an address at the end of a prefix or next to it.
fn ipv4(rng: &mut Rng, settings: &Settings) -> u32 {
    if let Some(IpNet::V4(net)) = listed(rng, settings) {
        let end = *one(rng, &[net.network(), net.broadcast()]);
        return u32::from(end).wrapping_add(*one(rng, &[0, 0, 0, 1, u32::MAX]));
    }
    let flip = u32::from(percent(rng, 25)) << rng.u32(0..32);
    u32::from(*one(rng, &IPV4)) ^ flip
}

fn ipv6(rng: &mut Rng, settings: &Settings) -> u128 {
    if let Some(IpNet::V6(net)) = listed(rng, settings) {
        let end = *one(rng, &[net.network(), net.broadcast()]);
        return u128::from(end).wrapping_add(*one(rng, &[0, 0, 0, 1, u128::MAX]));
    }
    let flip = u128::from(percent(rng, 25)) << rng.u32(0..128);
    u128::from(*one(rng, &IPV6)) ^ flip
}

/// A port that a limit names, or one next to it.
fn port(rng: &mut Rng, settings: &Settings) -> u16 {
    let limit = one(rng, &settings.limits);
    let ranges: Vec<PortRange> = [&limit.matches.destination_port, &limit.matches.source_port]
        .into_iter()
        .flat_map(|ports| ports.clone())
        .collect();
    let near = if ranges.is_empty() || percent(rng, 30) {
        *one(rng, &PORTS)
    } else {
        let range = one(rng, &ranges);
        u16::try_from(*one(rng, &[range.first, range.last])).unwrap()
    };
    near.wrapping_add(*one(rng, &[0, 0, 0, 1, u16::MAX]))
}
