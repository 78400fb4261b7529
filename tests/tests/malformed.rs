//! Truncated and inconsistent frames are counted under the right reason and cause no crash.

use std::net::IpAddr;

use limiter_common::policy::verdict::Reason;
use limiter_tests::{
    engine::{Engine, Kernel, Limit},
    need_kernel,
    packet::{Frame, Tags},
};

const ETHERNET: usize = 14;
const NOW: u64 = 1_000_000_000_000;

fn kernel() -> Kernel {
    Kernel::new(&Limit::new("1G/s", "1M"))
}

fn kinds() -> Vec<(Frame, usize, usize)> {
    let mut kinds = Vec::new();
    for (source, header) in [("192.0.2.7", 20), ("2001:db8::7", 40)] {
        for (tags, length) in [(Tags::None, 0), (Tags::One, 4), (Tags::Two, 8)] {
            let source: IpAddr = source.parse().unwrap();
            kinds.push((
                Frame {
                    tags,
                    ..Frame::from(source)
                },
                ETHERNET + length,
                header,
            ));
        }
    }
    kinds
}

#[test]
fn frame_cut_within_its_ip_header_is_malformed() {
    need_kernel!();
    for frags in [false, true] {
        let limit = Limit::new("1G/s", "1M");
        let mut kernel = Kernel::load(&limit, &limit.config(), frags);
        let mut malformed = 0;
        for (frame, link, ip) in kinds() {
            let whole = frame.bytes();
            for length in ETHERNET..=whole.len() {
                let wanted = if length < link + ip {
                    Reason::Malformed
                } else {
                    Reason::Admitted
                };
                let found = kernel.offer(&whole[..length], NOW);
                assert_eq!(
                    found, wanted,
                    "{frame:?} cut to {length} bytes, frags {frags}"
                );
                malformed += u64::from(found == Reason::Malformed);
            }
        }
        let counters = kernel.tables.counters().unwrap();
        assert_eq!(
            counters.by_reason[Reason::Malformed as usize].packets,
            malformed
        );
    }
}

#[test]
fn wrong_ipv4_version_or_header_length_is_malformed() {
    need_kernel!();
    let mut kernel = kernel();
    let frame = Frame {
        payload: 100,
        ..Frame::from("192.0.2.7".parse().unwrap())
    };
    for first in 0..=255_u8 {
        let mut bytes = frame.bytes();
        bytes[ETHERNET] = first;
        let sound = first >> 4 == 4 && first & 0xf >= 5;
        let wanted = if sound {
            Reason::Admitted
        } else {
            Reason::Malformed
        };
        assert_eq!(kernel.offer(&bytes, NOW), wanted, "first byte {first:#04x}");
        // The header claims 60 bytes with options, and the frame ends earlier.
        bytes[ETHERNET] = 0x4f;
        bytes.truncate(ETHERNET + 59);
        assert_eq!(kernel.offer(&bytes, NOW), Reason::Malformed, "options cut");
    }
}

#[test]
fn wrong_ipv6_version_is_malformed() {
    need_kernel!();
    let mut kernel = kernel();
    let frame = Frame::from("2001:db8::7".parse().unwrap());
    for first in 0..=255_u8 {
        let mut bytes = frame.bytes();
        bytes[ETHERNET] = first;
        let wanted = if first >> 4 == 6 {
            Reason::Admitted
        } else {
            Reason::Malformed
        };
        assert_eq!(kernel.offer(&bytes, NOW), wanted, "first byte {first:#04x}");
    }
}

#[test]
fn non_ip_passes_and_malformed_passes_only_if_configured() {
    need_kernel!();
    let mut kernel = kernel();
    assert_eq!(
        kernel.offer(&limiter_tests::packet::arp(), NOW),
        Reason::NotIp
    );
    let cut = &Frame::from("192.0.2.7".parse().unwrap()).bytes()[..30];
    let limit = Limit::new("5/s", "10");
    let passing = limiter_common::abi::Config {
        malformed_passes: 1,
        ..limit.config()
    };
    assert_eq!(
        Kernel::load(&limit, &passing, true).offer(cut, NOW),
        Reason::MalformedPassed
    );
    let shadow = limiter_common::abi::Config {
        shadow: 1,
        ..limit.config()
    };
    assert_eq!(
        Kernel::load(&limit, &shadow, true).offer(cut, NOW),
        Reason::MalformedWouldDrop
    );
}

/// Otherwise, the host would deliver a frame with any number of tags with VLAN id 0.
#[test]
fn frame_with_over_eight_tags_is_dropped_even_if_malformed_passes() {
    need_kernel!();
    let limit = Limit::new("5/s", "10");
    let passing = limiter_common::abi::Config {
        malformed_passes: 1,
        ..limit.config()
    };
    let mut kernel = Kernel::load(&limit, &passing, true);
    for source in ["192.0.2.7", "2001:db8::7"] {
        let plain = Frame::from(source.parse().unwrap()).bytes();
        for tags in 0..12 {
            for tag in [[0x81, 0x00, 0, 0], [0x88, 0xa8, 0, 0]] {
                let frame = [&plain[..12], &tag.repeat(tags), &plain[12..]].concat();
                let wanted = if tags <= 8 {
                    Reason::Admitted
                } else {
                    Reason::Malformed
                };
                let _ = kernel.tables.sets.forget_all();
                assert_eq!(kernel.offer(&frame, NOW), wanted, "{source}, {tags} tags");
            }
        }
    }
}
