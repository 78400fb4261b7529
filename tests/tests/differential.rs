//! The kernel and the model give every packet the same verdict for the same reason.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use limiter_common::policy::verdict::Reason;
use limiter_tests::{
    engine::{Engine, Kernel, Limit, Model},
    need_kernel,
    packet::{Frame, Tags, arp},
};

const PACKETS_PER_LIMIT: u32 = 15_000;

fn limits() -> Vec<Limit> {
    let limit = |rate: &str, burst: &str, key: &str, shadow: bool| Limit {
        key: key.parse().unwrap(),
        shadow,
        ..Limit::new(rate, burst)
    };
    vec![
        limit("5/s", "10", "/32,/64", false),
        limit("1M/s", "100", "/24,/48", false),
        limit("148800k/s", "1k", "/32,/128", false),
        limit("1/d", "3", "/0,/0", false),
        limit("10/6s", "7", "/31,/65", true),
        limit("10mbit", "1mb", "/32,/64", false),
        limit("400gbit", "9000b", "interface", false),
        limit("64kbit", "2000b", "/17,/33", false),
    ]
}

/// A source from a small pool, so that buckets are used again, with addresses that differ in any bit.
fn source(rng: &mut Rng) -> IpAddr {
    let bit = rng.u32(0..128);
    if rng.bool() {
        IpAddr::V4(Ipv4Addr::from(0xc000_0207 ^ (1_u32 << (bit % 32))))
    } else {
        IpAddr::V6(Ipv6Addr::from(
            0x2001_0db8_0001_0002_0003_0004_0005_0006 ^ (1_u128 << bit),
        ))
    }
}

/// A frame: mostly valid; some truncated, some with a byte changed, some not IP.
fn packet(rng: &mut Rng) -> Vec<u8> {
    let tags = [Tags::None, Tags::One, Tags::Two][rng.usize(0..3)];
    let payload = if rng.u8(..) == 0 {
        rng.usize(0..1_400)
    } else {
        rng.usize(0..64)
    };
    let mut bytes = Frame {
        tags,
        payload,
        ..Frame::from(source(rng))
    }
    .bytes();
    match rng.u8(0..20) {
        0 => bytes = arp(),
        1 | 2 => bytes.truncate(rng.usize(14..=bytes.len())),
        3 | 4 => {
            let at = rng.usize(12..bytes.len().min(60));
            bytes[at] = rng.u8(..);
        }
        5 => bytes[14..].iter_mut().for_each(|byte| *byte = rng.u8(..)),
        _ => {}
    }
    bytes
}

/// Mostly forward by a little; sometimes not at all, by a lot, or backward.
fn step(rng: &mut Rng, nanoseconds: u64) -> u64 {
    match rng.u8(0..100) {
        0 => nanoseconds + rng.u64(0..100 * 86_400_000_000_000),
        1 => nanoseconds.saturating_sub(rng.u64(0..10_000_000_000)),
        2..=5 => nanoseconds.saturating_sub(rng.u64(0..2_000)),
        6..=40 => nanoseconds,
        _ => nanoseconds + (1 << rng.u32(0..34)),
    }
}

#[test]
fn kernel_and_model_agree_on_every_packet() {
    need_kernel!();
    let seed = 0x11_17e2;
    let mut rng = Rng::with_seed(seed);
    let mut seen = [0_u64; Reason::ALL.len()];
    for limit in limits() {
        let (mut kernel, mut model) = (Kernel::new(&limit), Model::new(&limit));
        let mut now = 1_000_000_000_000;
        let mut removed = 0;
        for number in 0..PACKETS_PER_LIMIT {
            now = step(&mut rng, now);
            let packet = packet(&mut rng);
            let ours = kernel.offer(&packet, now);
            // A full bucket may be replaced by another. That loses nothing unless the clock is set back.
            let given = kernel.tables.counters().unwrap().sources_removed - removed;
            if given > 0 {
                let gone = model.forget(|key| kernel.entry(key).is_none(), now);
                assert_eq!(gone, given, "packet {number}");
                removed += given;
            }
            let wanted = model.offer(&packet, now);
            assert_eq!(
                ours, wanted,
                "seed {seed:#x}, packet {number} at {now} ns, {limit:?}: {packet:02x?}"
            );
            seen[ours as usize] += 1;
        }
        let counters = kernel.tables.counters().unwrap();
        let counted: u64 = counters.by_reason.iter().map(|count| count.packets).sum();
        assert_eq!(
            counted,
            u64::from(PACKETS_PER_LIMIT),
            "every packet is counted once"
        );
    }
    // Each outcome came up often.
    for reason in [
        Reason::Admitted,
        Reason::Limit,
        Reason::WouldDrop,
        Reason::NotIp,
        Reason::Malformed,
    ] {
        assert!(
            seen[reason as usize] > 500,
            "{reason:?} came up {} times",
            seen[reason as usize]
        );
    }
    assert!(seen.iter().sum::<u64>() >= 100_000);
}
