//! Truncated and inconsistent frames are counted under the right reason and cause no crash.

use limiter_common::policy::verdict::Reason;
use limiter_tests::{
    engine::{Kernel, Limit, runs_tc},
    need_kernel,
    packet::{Frame, TAGS, arp},
    settings,
};

const ETHERNET: usize = 14;
const NOW: u64 = 1_000_000_000_000;

/// The program with a limit that no test reaches, and these lines of its file.
fn kernel(lines: &str) -> Kernel {
    let limit = "[[limit]]\nname = \"all\"\nrate = \"1G/s\"\nburst = \"1M\"\n";
    Kernel::of(&settings(&format!("{lines}\n{limit}")))
}

fn kinds() -> Vec<(Frame, usize, usize)> {
    let mut kinds = Vec::new();
    for (source, header) in [("192.0.2.7", 20), ("2001:db8::7", 40)] {
        for tags in TAGS {
            let frame = Frame {
                tags,
                ..Frame::from(source.parse().unwrap())
            };
            kinds.push((frame, ETHERNET + 4 * tags.len(), header));
        }
    }
    kinds
}

#[test]
fn frame_cut_within_its_ip_header_is_malformed() {
    need_kernel!();
    let limit = Limit::new("1G/s", "1M");
    let plain = Kernel::load(&limit, &limit.config(), false);
    for kernel in Kernel::at_each_hook(&limit).into_iter().chain([plain]) {
        let mut malformed = 0;
        for (frame, link, ip) in kinds() {
            let whole = frame.bytes();
            for length in ETHERNET..=whole.len() {
                let wanted = if length < link + ip {
                    Reason::Malformed
                } else {
                    Reason::Admitted
                };
                let cut = &whole[..length];
                if kernel.tc && !runs_tc(cut) {
                    continue;
                }
                let found = kernel.offer(cut, NOW);
                let name = kernel.program.entry();
                assert_eq!(found, wanted, "{frame:?} cut to {length} bytes, {name}");
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
fn non_ip_passes_and_malformed_passes_only_if_configured() {
    need_kernel!();
    let cut = &Frame::from("192.0.2.7".parse().unwrap()).bytes()[..30];
    for (configured, frame, reason) in [
        ("", &arp()[..], Reason::NotIp),
        ("", cut, Reason::Malformed),
        ("malformed = \"pass\"", cut, Reason::MalformedPassed),
        ("shadow = true", cut, Reason::MalformedWouldDrop),
    ] {
        let found = kernel(configured).offer(frame, NOW);
        assert_eq!(found, reason, "{configured}");
    }
}

/// Otherwise, the host would deliver a frame with any number of tags with VLAN id 0.
#[test]
fn frame_with_over_eight_tags_is_dropped_even_if_malformed_passes() {
    need_kernel!();
    let kernel = kernel("malformed = \"pass\"");
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
                assert_eq!(kernel.offer(&frame, NOW), wanted, "{source}, {tags} tags");
            }
        }
    }
}
