//! Several limits, lists and matches decide as documented, in the kernel.

use std::net::{IpAddr, Ipv4Addr};

use etherparse::PacketBuilder;
use limiter_common::policy::verdict::Reason;
use limiter_tests::{
    engine::{Engine, Kernel},
    need_kernel,
    packet::{Frame, arp},
    random, settings,
};

const START: u64 = 1_000_000_000_000;
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

fn from(source: &str) -> Vec<u8> {
    Frame::from(source.parse().unwrap()).bytes()
}

fn tcp(port: u16, syn: bool) -> Vec<u8> {
    let IpAddr::V4(source) = SOURCE else {
        unreachable!()
    };
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4(source.octets(), [192, 0, 2, 1], 64)
        .tcp(40_000, port, 1, 1_024);
    let builder = if syn { builder.syn() } else { builder.ack(1) };
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &[0; 20]).unwrap();
    bytes
}

/// The length is from the IP header, and does not include padding.
#[test]
fn limit_on_length_applies_to_packets_of_that_length() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
        r#"
        [[limit]]
        name = "short"
        match = { length = "41-80" }
        rate = "1/h"
        burst = 1
        "#,
    ));
    let udp = |payload: usize| {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([192, 0, 2, 7], [192, 0, 2, 1], 64)
            .udp(40_000, 53);
        let mut frame = Vec::new();
        builder.write(&mut frame, &vec![0; payload]).unwrap();
        frame.resize(frame.len().max(90), 0);
        frame
    };
    for (length, reason) in [
        (41, Reason::Admitted),
        (41, Reason::Limit),
        (80, Reason::Limit),
        (40, Reason::Unlimited),
        (81, Reason::Unlimited),
    ] {
        let verdict = kernel.offer(&udp(length - 28), START);
        assert_eq!(verdict, reason, "{length} bytes");
    }
}

/// A packet that the limit by /24 refuses is not charged to the source.
#[test]
fn example_9_packet_is_charged_to_all_limits_or_none() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
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
    let mut kernel = Kernel::of(&settings(
        r#"
        [lists]
        allow = ["10.1.0.0/16", "2001:db8::/32"]
        deny = ["10.0.0.0/8", "10.1.2.0/24", "2001:db8:bad::/48"]
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
        ("2001:db8::1", Reason::Allowed),
        ("2001:db8:bad::1", Reason::Deny),
        ("192.0.2.7", Reason::Admitted),
        ("192.0.2.7", Reason::Limit),
        ("2001:db9::1", Reason::Admitted),
    ] {
        assert_eq!(kernel.offer(&from(source), START), reason, "{source}");
    }
    let hits = |bit| kernel.tables.hits(bit).unwrap().packets;
    assert_eq!((hits(0), hits(1)), (2, 3), "allow, deny");
}

#[test]
fn limits_match_ports_flags_and_tiers() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
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
    let mut offer = |packet: &[u8]| kernel.offer(packet, START);
    assert_eq!(offer(&tcp(22, true)), Reason::Admitted);
    assert_eq!(offer(&tcp(2250, true)), Reason::Admitted);
    assert_eq!(offer(&tcp(22, true)), Reason::Limit);
    assert_eq!(offer(&tcp(22, false)), Reason::Unlimited, "no SYN");
    assert_eq!(offer(&tcp(2300, true)), Reason::Unlimited, "another port");
    assert_eq!(offer(&from("192.0.2.7")), Reason::Admitted, "UDP");
    assert_eq!(offer(&from("192.0.2.7")), Reason::Limit);
    assert_eq!(offer(&from("198.51.100.1")), Reason::Admitted);
    assert_eq!(offer(&from("198.51.100.1")), Reason::WouldDrop);
    let watched = kernel.tables.limit(2).unwrap();
    assert_eq!(
        (watched.admitted.packets, watched.would_drop.packets),
        (1, 1)
    );
}

#[test]
fn control_traffic_has_its_own_limit() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
        r#"
        exempt = ["control"]
        [[limit]]
        name = "rest"
        rate = "1/h"
        burst = 1
        "#,
    ));
    let passed = (0..300).filter(|_| kernel.passes(&arp(), START)).count();
    assert_eq!(passed, 200, "ARP has its own limit");
    assert_eq!(kernel.offer(&from("192.0.2.7"), START), Reason::Admitted);
    assert_eq!(kernel.offer(&from("192.0.2.7"), START), Reason::Limit);
}

/// This holds even if no limit matches on fields after the IP header.
#[test]
fn neighbour_discovery_and_dhcp_are_control_traffic() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
        r#"
        exempt = ["control"]
        [[limit]]
        name = "rest"
        rate = "1/h"
        burst = 1
        "#,
    ));
    let frame = random::frame::Frame {
        tags: Vec::new(),
        source: "fe80::1".parse().unwrap(),
        protocol: 58,
        ports: (68, 67),
        flags: 0,
        icmp: 135,
        hops: 255,
        fragment: None,
        options: 0,
        extensions: Vec::new(),
        payload: 16,
    };
    let from_afar = random::frame::Frame {
        hops: 64,
        ..frame.clone()
    };
    let dhcp = random::frame::Frame {
        source: SOURCE,
        protocol: 17,
        ..frame.clone()
    };
    for control in [frame, dhcp] {
        let passed = (0..300).filter(|_| kernel.passes(&control.bytes(), START));
        assert_eq!(passed.count(), 200, "exempt, and no hole: {control:?}");
    }
    let passed = (0..300).filter(|_| kernel.passes(&from_afar.bytes(), START));
    assert_eq!(passed.count(), 1, "a hop limit below 255");
}

/// A neighbour discovery packet of this ICMPv6 type.
fn discovery(source: &str, icmp: u8) -> Vec<u8> {
    let frame = random::frame::Frame {
        tags: Vec::new(),
        source: source.parse().unwrap(),
        protocol: 58,
        ports: (0, 0),
        flags: 0,
        icmp,
        hops: 255,
        fragment: None,
        options: 0,
        extensions: Vec::new(),
        payload: 16,
    };
    frame.bytes()
}

/// Each solicitation comes from another made-up neighbour. The total is the default, and then a configured one.
#[test]
fn spoofed_neighbours_share_the_total_of_control_traffic() {
    need_kernel!();
    const HALF_A_SECOND: u64 = 500_000_000;
    for (control, total) in [("", 10_000), ("[control]\ntotal = \"500/s\"\n", 500)] {
        let mut kernel = Kernel::of(&settings(&format!(
            "new_sources = \"none\"\nexempt = [\"control\"]\n{control}\
             [[limit]]\nname = \"rest\"\nrate = \"1/h\"\nburst = 1\n"
        )));
        let mut neighbours = 0_u32;
        let mut passed_at = |now| {
            let solicit = |_: &u32| {
                neighbours += 1;
                let source = format!("fe80::{:x}:{:x}", neighbours >> 16, neighbours & 0xffff);
                kernel.passes(&discovery(&source, 135), now)
            };
            (0..total + total / 4).filter(solicit).count()
        };
        assert_eq!(passed_at(START), total as usize, "burst of {total}");
        let more = passed_at(START + HALF_A_SECOND);
        assert_eq!(more, total as usize / 2, "half a second of {total}/s");
    }
}

/// Without a total, each made-up neighbour gets the rate of one source.
#[test]
fn control_traffic_has_the_rate_and_burst_of_the_file() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
        r#"
        exempt = ["control"]
        [control]
        rate = "2/s"
        burst = 3
        total = "none"
        [[limit]]
        name = "rest"
        rate = "1/h"
        burst = 1
        "#,
    ));
    for source in ["fe80::1", "fe80::2"] {
        let mut passed_at = |now| {
            let frame = discovery(source, 135);
            (0..10).filter(|_| kernel.passes(&frame, now)).count()
        };
        assert_eq!(passed_at(START), 3);
        assert_eq!(passed_at(START + 1_000_000_000), 2);
    }
}

/// The advertisements of the gateway and solicitations of other neighbours pass.
#[test]
fn chatty_neighbour_leaves_neighbour_discovery_to_others() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
        r#"
        exempt = ["control"]
        [[limit]]
        name = "rest"
        rate = "1/h"
        burst = 1
        "#,
    ));
    let chatty = discovery("fe80::bad", 135);
    let passed = (0..10_000).filter(|_| kernel.passes(&chatty, START));
    assert_eq!(passed.count(), 200);
    for (source, icmp) in [("fe80::1", 136), ("fe80::1", 134), ("fe80::2", 135)] {
        let reason = kernel.offer(&discovery(source, icmp), START);
        assert_eq!(reason, Reason::Admitted, "{source}, type {icmp}");
    }
}

#[test]
fn shadow_counts_no_packet_that_another_limit_drops() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
        r#"
        new_sources = "1/d"
        new_sources_burst = 2
        [[limit]]
        name = "watched"
        key = "interface"
        rate = "1/h"
        burst = 1
        shadow = true
        [[limit]]
        name = "sources"
        rate = "1/h"
        burst = 2
        "#,
    ));
    let (known, new) = (from("192.0.2.7"), from("192.0.2.8"));
    assert_eq!(kernel.offer(&known, START), Reason::Admitted);
    assert_eq!(kernel.offer(&known, START), Reason::WouldDrop);
    // Each limit has one token for new sources. The first packet took one token for all of its buckets.
    assert_eq!(kernel.offer(&from("192.0.2.9"), START), Reason::WouldDrop);
    assert_eq!(kernel.offer(&new, START), Reason::NewSource);
    let [watched, sources] = [0, 1].map(|slot| kernel.tables.limit(slot).unwrap());
    assert_eq!(
        (watched.admitted.packets, watched.would_drop.packets),
        (1, 2)
    );
    assert_eq!((sources.admitted.packets, sources.dropped.packets), (3, 1));
}

#[test]
fn new_sources_are_limited_and_known_sources_are_not() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
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

/// By the second fragment header, the packet would be whole.
#[test]
fn first_fragment_is_matched_behind_a_second_fragment_header() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
        r#"
        [[limit]]
        name = "fragments"
        match = { fragments = true }
        rate = "1/h"
        burst = 1
        "#,
    ));
    let whole = from("2001:db8::7");
    let (headers, udp) = whole.split_at(14 + 40);
    let more = [44, 0, 0, 1, 0, 0, 0, 7];
    let atomic = [17, 0, 0, 0, 0, 0, 0, 8];
    let mut packet = [headers, &more, &atomic, udp].concat();
    packet[14 + 6] = 44;
    assert_eq!(kernel.offer(&whole, START), Reason::Unlimited);
    assert_eq!(kernel.offer(&packet, START), Reason::Admitted);
    assert_eq!(kernel.offer(&packet, START), Reason::Limit);
}

#[test]
fn thirty_two_limits_load() {
    need_kernel!();
    let mut text = "exempt = [\"established\", \"control\"]\n[lists]\nallow = [\"10.0.0.0/8\"]\ntier = [\"2001:db8::/32\"]\n".to_owned();
    for i in 0..32 {
        let matches = [
            "{ protocol = \"tcp\", destination_port = [1, 2, \"3-4\"], tcp_flags = \"syn\" }",
            "{ source = \"tier\", ip_version = 6, fragments = false }",
            "{ unless = \"tier\" }",
        ][i % 3];
        let algorithm = ["token-bucket", "fixed-window"][i % 2];
        text += &format!(
            "[[limit]]\nname = \"l{i}\"\nmatch = {matches}\nkey = \"/32,/64,destination_port\"\nrate = \"100/s\"\nalgorithm = \"{algorithm}\"\n"
        );
    }
    let mut kernel = Kernel::of(&settings(&text));
    assert_eq!(kernel.offer(&from("10.1.2.3"), START), Reason::Allowed);
    assert_eq!(kernel.offer(&from("192.0.2.7"), START), Reason::Admitted);
}
