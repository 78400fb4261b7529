//! Several limits, lists, and the total of control traffic decide as documented, in the kernel.

use std::net::Ipv6Addr;

use etherparse::PacketBuilder;
use limiter_common::policy::verdict::Reason;
use limiter_tests::{engine::Kernel, need_kernel, packet::Frame, settings};

const START: u64 = 1_000_000_000_000;

fn from(source: &str) -> Vec<u8> {
    Frame::from(source.parse().unwrap()).bytes()
}

/// A neighbour solicitation.
fn solicitation(source: &str) -> Vec<u8> {
    let source: Ipv6Addr = source.parse().unwrap();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv6(source.octets(), [0xff; 16], 255)
        .icmpv6_raw(135, 0, [0; 4]);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[0; 16]).unwrap();
    frame
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
    let bucket_of = |slot| {
        sources
            .iter()
            .find(|(key, _)| key.slot() == slot)
            .unwrap()
            .1
    };
    let spent = |slot| {
        (bucket_of(slot).tat - limiter_common::arithmetic::bucket::ticks(START)) as f64
            / 256e9
            / 3600.0
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
                kernel.passes(&solicitation(&source), now)
            };
            (0..total + total / 4).filter(solicit).count()
        };
        assert_eq!(passed_at(START), total as usize, "burst of {total}");
        let more = passed_at(START + HALF_A_SECOND);
        assert_eq!(more, total as usize / 2, "half a second of {total}/s");
    }
}
