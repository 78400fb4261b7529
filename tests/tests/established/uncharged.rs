//! Packets of established connections change no bucket and no counter of a limit.

use std::{collections::HashMap, net::IpAddr};

use limiter_common::{
    abi::counters::LimitCounters,
    policy::verdict::Reason,
    table::{Seed, key::SourceKey},
};
use limiter_tests::{
    cpus::pin_to,
    engine::Kernel,
    hosts::{Hosts, on},
    need_kernel,
    packet::Ends,
    settings,
};

use super::{FAMILIES, NEVER_SENT, connected_udp, ends_of, offer};

#[test]
fn established_packets_leave_the_bucket_full() {
    need_kernel!();
    for (server, client) in FAMILIES {
        let hosts = Hosts::of_both_families();
        let (receiver, from) = connected_udp(&hosts, server, client);
        let connection = ends_of(&hosts, &from, &receiver);
        let mut stranger = connection;
        stranger.from.set_port(stranger.from.port() ^ 1);
        hosts.run("attach eth0 --rate 1/h --burst 10 --exempt established");
        let (exempt, charged) = (connection.udp(b"data"), stranger.udp(b"data"));
        for (situation, frame, count, wanted) in [
            ("exempt, while the bucket is full", &exempt, 30, (30, 0)),
            ("charged: the bucket is full", &charged, 11, (0, 1)),
            ("exempt, while the bucket is empty", &exempt, 7, (7, 0)),
        ] {
            assert_eq!(offer(&hosts, frame, count), wanted, "{situation}");
        }
        let status = hosts.limiter("status eth0").stdout;
        assert!(status.contains("  passes   37 established"), "{status}");
        for _ in 0..37 {
            receiver.recv(&mut [0; 16]).expect("all datagrams arrive");
        }
    }
}

/// A packet of the connected source, to the connected socket or to another one, or a packet of another source.
fn some_packet(rng: &mut fastrand::Rng, connection: Ends) -> (Vec<u8>, bool) {
    let strange = connection.at(connection.from.port(), NEVER_SENT);
    match rng.u8(0..8) {
        0..4 => (connection.udp(b"data"), true),
        4..6 => (strange.udp(b"data"), false),
        _ => {
            let mut other = strange;
            other.from.set_ip(match other.from.ip() {
                IpAddr::V4(_) => IpAddr::V4([192, 0, 2, rng.u8(..)].into()),
                IpAddr::V6(_) => IpAddr::V6((rng.u128(..) >> 64 | 0x2001 << 112).into()),
            });
            (other.udp(b"data"), false)
        }
    }
}

/// Counters of each limit, and of each source: packets passed, and packets over the limit.
fn figures(kernel: &Kernel, limits: u32) -> (Vec<LimitCounters>, HashMap<SourceKey, (u64, u64)>) {
    let of_sources = kernel.tables.sets.sources();
    let counts = of_sources.map(|(key, source)| (key, (source.passed, source.refused)));
    let of_limits = (0..limits).map(|slot| kernel.tables.limit(slot).unwrap());
    (of_limits.collect(), counts.collect())
}

/// One program has the exemption and sees all packets. The other has none, and sees only the packets that do not belong
/// to the connection. Both give these packets equal verdicts, and end with equal counters.
#[test]
fn established_packets_change_no_bucket_and_no_limit_counter() {
    need_kernel!();
    const PACKETS: u32 = 1_500;
    let limits = [
        "name = 'source'\nrate = '3/s'\nburst = 4",
        "name = 'network'\nkey = '/24,/48'\nrate = '6/s'\nburst = 9",
        "name = 'quiet'\nkey = 'interface'\nshadow = true\nrate = '2/s'\nburst = 2",
        "name = 'port'\nmatch = { protocol = 'udp', destination_port = 7 }\nrate = '2/s'\nburst = 3",
    ];
    let (mut exempt, mut others) = (0, [0_u32; Reason::ALL.len()]);
    for (number, (server, client)) in (0..8).zip(FAMILIES.into_iter().cycle()) {
        let mut rng = fastrand::Rng::with_seed(number);
        let mut some = limits.to_vec();
        rng.shuffle(&mut some);
        // A single limit takes the fast path.
        some.truncate([4, 4, 3, 1][number as usize / 2]);
        let limits = some.len() as u32;
        let text: String = (some.iter())
            .map(|limit| format!("[[limit]]\n{}\n", limit.replace('\'', "\"")))
            .collect();
        let text = format!("max_sources = 512\nnew_sources = \"20/m\"\n{text}");
        let hosts = Hosts::of_both_families();
        let (receiver, from) = connected_udp(&hosts, server, client);
        let connection = ends_of(&hosts, &from, &receiver);
        on(&hosts.server, || {
            // Each CPU has its own lease of new sources.
            pin_to(0);
            let mut settings = settings(&text);
            let seed = Seed([rng.u64(..), rng.u64(..), rng.u64(..), rng.u64(..)]);
            let without = Kernel::seeded(&settings, seed);
            settings.exempt.established = true;
            let kernel = Kernel::seeded(&settings, seed);
            let mut now = 1_000_000_000_000;
            for _ in 0..PACKETS {
                now += rng.u64(0..400_000_000);
                let (frame, is_of_connection) = some_packet(&mut rng, connection);
                let reason = kernel.offer(&frame, now);
                if is_of_connection {
                    // A packet that no limit matches counts as unlimited instead of exempt.
                    exempt += u32::from(reason == Reason::Established);
                    let is_free = matches!(reason, Reason::Established | Reason::Unlimited);
                    assert!(is_free, "{reason:?}: {text}");
                } else {
                    others[reason as usize] += 1;
                    assert_eq!(reason, without.offer(&frame, now), "{text}");
                }
            }
            assert_eq!(
                figures(&kernel, limits),
                figures(&without, limits),
                "{text}"
            );
        });
    }
    assert!(exempt > 100, "{exempt} packets were exempt");
    for reason in [
        Reason::Admitted,
        Reason::WouldDrop,
        Reason::Limit,
        Reason::NewSource,
    ] {
        assert!(others[reason as usize] > 100, "{reason:?}: {others:?}");
    }
}
