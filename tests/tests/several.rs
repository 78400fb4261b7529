//! Several limits, lists and matches decide as documented, in the kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use etherparse::PacketBuilder;
use limiter_common::policy::verdict::Reason;
use limiter_tests::{
    engine::Kernel,
    need_kernel,
    packet::{Ends, Frame, Segment, arp},
    settings,
};

const START: u64 = 1_000_000_000_000;
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

fn from(source: &str) -> Vec<u8> {
    Frame::from(source.parse().unwrap()).bytes()
}

/// Packets from [`SOURCE`] with these ports.
fn ends(from: u16, to: u16) -> Ends {
    Ends {
        macs: ([2; 6], [4; 6]),
        from: SocketAddr::new(SOURCE, from),
        to: SocketAddr::from(([192, 0, 2, 1], to)),
    }
}

/// A neighbour discovery packet of this ICMPv6 type.
fn discovery(source: &str, icmp: u8, hops: u8) -> Vec<u8> {
    let source: Ipv6Addr = source.parse().unwrap();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv6(source.octets(), [0xff; 16], hops)
        .icmpv6_raw(icmp, 0, [0; 4]);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[0; 16]).unwrap();
    frame
}

/// The length is from the IP header, and does not include padding.
#[test]
fn limit_on_length_applies_to_packets_of_that_length() {
    need_kernel!();
    let kernel = Kernel::of(&settings(
        r#"
        [[limit]]
        name = "short"
        match = { length = "41-80" }
        rate = "1/h"
        burst = 1
        "#,
    ));
    for (length, reason) in [
        (41, Reason::Admitted),
        (41, Reason::Limit),
        (80, Reason::Limit),
        (40, Reason::Unlimited),
        (81, Reason::Unlimited),
    ] {
        let mut frame = ends(40_000, 53).udp(&vec![0; length - 28]);
        frame.resize(frame.len().max(90), 0);
        assert_eq!(kernel.offer(&frame, START), reason, "{length} bytes");
    }
}

/// A packet that the limit by /24 refuses is not charged to the source.
#[test]
fn example_9_packet_is_charged_to_all_limits_or_none() {
    need_kernel!();
    let kernel = Kernel::of(&settings(
        r#"
        [[limit]]
        name = "source"
        rate = "1/h"
        burst = 10
        [[limit]]
        name = "subnet"
        key = "/24,/48"
        rate = "1/h"
        burst = 4
        "#,
    ));
    let packet = from("192.0.2.7");
    let passed = (0..10).filter(|_| kernel.passes(&packet, START)).count();
    assert_eq!(passed, 4);
    let sources: Vec<_> = kernel.tables.sets.sources().collect();
    let of = |slot| {
        sources
            .iter()
            .find(|(key, _)| key.slot() == slot)
            .unwrap()
            .1
    };
    let spent = |slot| {
        (of(slot).tat - limiter_common::arithmetic::bucket::ticks(START)) as f64 / 256e9 / 3600.0
    };
    assert!((spent(0) - 4.0).abs() < 1e-6, "6 are left: {}", spent(0));
    assert!((spent(1) - 4.0).abs() < 1e-6);
    let limits = [kernel.tables.limit(0), kernel.tables.limit(1)].map(Result::unwrap);
    assert_eq!(limits[0].admitted.packets, 4);
    assert_eq!(limits[0].dropped.packets, 0, "drops of the limit by source");
    assert_eq!(limits[1].dropped.packets, 6);
}

#[test]
fn lists_come_before_limits_and_the_longest_prefix_decides() {
    need_kernel!();
    let kernel = Kernel::of(&settings(
        r#"
        [lists]
        allow = ["10.1.0.0/16", "10.1.2.3", "172.16.0.0/12", "2001:db8::/32"]
        deny = ["10.0.0.0/8", "10.1.2.0/24", "172.16.0.0/12", "2001:db8:bad::/48"]
        [[limit]]
        name = "rest"
        rate = "1/h"
        burst = 1
        "#,
    ));
    for (source, reason) in [
        ("10.9.9.9", Reason::Deny),
        ("10.1.9.9", Reason::Allowed),
        ("10.1.2.9", Reason::Deny),
        ("10.1.2.3", Reason::Allowed),
        ("172.16.0.1", Reason::Deny),
        ("2001:db8::1", Reason::Allowed),
        ("2001:db8:bad::1", Reason::Deny),
        ("192.0.2.7", Reason::Admitted),
        ("192.0.2.7", Reason::Limit),
        ("2001:db9::1", Reason::Admitted),
    ] {
        assert_eq!(kernel.offer(&from(source), START), reason, "{source}");
    }
    let hits = |bit| kernel.tables.hits(bit).unwrap().packets;
    assert_eq!((hits(0), hits(1)), (3, 4), "allow, deny");
}

#[test]
fn limits_match_ports_flags_and_tiers() {
    need_kernel!();
    let kernel = Kernel::of(&settings(
        r#"
        [lists]
        friends = ["198.51.100.0/24"]
        [[limit]]
        name = "ssh"
        match = { protocol = "tcp", destination_port = [22, "2200-2299"], tcp_flags = "syn" }
        rate = "1/h"
        burst = 2
        [[limit]]
        name = "strangers"
        match = { protocol = "udp", unless = "friends" }
        rate = "1/h"
        burst = 1
        [[limit]]
        name = "watched"
        match = { source = "friends" }
        rate = "1/h"
        burst = 1
        shadow = true
        "#,
    ));
    let tcp = |port, segment| ends(40_000, port).tcp(segment);
    for (what, packet, reason) in [
        ("port 22", tcp(22, Segment::Syn), Reason::Admitted),
        ("a range", tcp(2250, Segment::Syn), Reason::Admitted),
        ("over the limit", tcp(22, Segment::Syn), Reason::Limit),
        ("no SYN", tcp(22, Segment::Data), Reason::Unlimited),
        ("another port", tcp(2300, Segment::Syn), Reason::Unlimited),
        ("UDP", from("192.0.2.7"), Reason::Admitted),
        ("UDP over the limit", from("192.0.2.7"), Reason::Limit),
        ("on the tier", from("198.51.100.1"), Reason::Admitted),
        ("in shadow", from("198.51.100.1"), Reason::WouldDrop),
    ] {
        assert_eq!(kernel.offer(&packet, START), reason, "{what}");
    }
    let watched = kernel.tables.limit(2).unwrap();
    assert_eq!(
        (watched.admitted.packets, watched.would_drop.packets),
        (1, 1)
    );
}

/// This holds even if no limit matches on fields after the IP header.
#[test]
fn arp_neighbour_discovery_and_dhcp_are_control_traffic() {
    need_kernel!();
    let kernel = Kernel::of(&settings(
        r#"
        exempt = ["control"]
        [[limit]]
        name = "rest"
        rate = "1/h"
        burst = 1
        "#,
    ));
    for (what, frame, passing) in [
        ("ARP", arp(), 200),
        ("a neighbour", discovery("fe80::1", 135, 255), 200),
        ("DHCP", ends(68, 67).udp(&[0; 16]), 200),
        ("from afar", discovery("fe80::2", 135, 64), 1),
    ] {
        let passed = (0..300).filter(|_| kernel.passes(&frame, START));
        assert_eq!(passed.count(), passing, "{what}");
    }
}

/// Each solicitation comes from another made-up neighbour. The total is the default, and then a configured one.
#[test]
fn spoofed_neighbours_share_the_total_of_control_traffic() {
    need_kernel!();
    const HALF_A_SECOND: u64 = 500_000_000;
    for (control, total) in [("", 10_000), ("[control]\ntotal = \"500/s\"\n", 500)] {
        let kernel = Kernel::of(&settings(&format!(
            "new_sources = \"none\"\nexempt = [\"control\"]\n{control}\
             [[limit]]\nname = \"rest\"\nrate = \"1/h\"\nburst = 1\n"
        )));
        let mut neighbours = 0_u32;
        let mut passed_at = |now| {
            let solicit = |_: &u32| {
                neighbours += 1;
                let source = format!("fe80::{:x}:{:x}", neighbours >> 16, neighbours & 0xffff);
                kernel.passes(&discovery(&source, 135, 255), now)
            };
            (0..total + total / 4).filter(solicit).count()
        };
        assert_eq!(passed_at(START), total as usize, "burst of {total}");
        let more = passed_at(START + HALF_A_SECOND);
        assert_eq!(more, total as usize / 2, "half a second of {total}/s");
    }
}

#[test]
fn new_sources_are_limited_and_known_sources_are_not() {
    need_kernel!();
    let kernel = Kernel::of(&settings(
        r#"
        new_sources = "100/s"
        new_sources_burst = 50
        [[limit]]
        name = "all"
        rate = "5/s"
        burst = 10
        "#,
    ));
    let known = from("192.0.2.7");
    assert_eq!(kernel.offer(&known, START), Reason::Admitted);
    let mut admitted = 0;
    for i in 0..20_000_u32 {
        let now = START + u64::from(i) * 50_000;
        let spoofed = Frame::from(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + i))).bytes();
        match kernel.offer(&spoofed, now) {
            Reason::Admitted => admitted += 1,
            reason => assert_eq!(reason, Reason::NewSource),
        }
        if i % 4_000 == 3_999 {
            assert_eq!(kernel.offer(&known, now), Reason::Admitted, "known");
        }
    }
    // One second of refill, the burst without the known source's token, and a lease.
    assert!((148..=150).contains(&admitted), "{admitted}");
}
