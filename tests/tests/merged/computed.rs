//! The size of a merged packet, by the policy and by the program in the kernel, and what it is when it is really cut.

use std::num::NonZeroU32;

use fastrand::Rng;
use limiter_common::{
    arithmetic::size,
    policy::{
        headers::{ETHERNET, Header, Headers},
        merged,
    },
};
use limiter_tests::{
    engine::{Kernel, Limit},
    model::merged::{Kind, Merged},
    need, need_kernel,
    random::{self, merged::merged},
};

use super::Size;

const MACS: ([u8; 6], [u8; 6]) = ([2; 6], [4; 6]);

struct Frame<'f>(&'f [u8]);

impl Headers for Frame<'_> {
    fn length(&self) -> u32 {
        self.0.len() as u32
    }

    fn bytes(&self, offset: u32) -> Option<u64> {
        let rest = self.0.get(offset as usize..)?;
        Some(u64::from_be_bytes(*rest.first_chunk()?))
    }
}

/// The size of a frame by the policy. `count` is what the kernel says; 0: nothing.
fn charged(frame: &[u8], segment: u32, count: u32) -> Size {
    let merged = merged::Merged {
        length: frame.len() as u32,
        segment_size: NonZeroU32::new(segment).unwrap(),
        segment_count: count,
    };
    let size = merged.size(Header::first(ETHERNET), &Frame(frame));
    (size::packets(size), size::bytes(size))
}

/// The size of a packet that is really cut.
pub fn cut(merged: &Merged) -> Size {
    let packets = merged.cut();
    let bytes: usize = packets.iter().map(Vec::len).sum();
    (packets.len() as u64, bytes as u64)
}

/// Checks what is charged for a packet that becomes `real`. `is_counted`: the kernel has said the number of packets.
pub fn check(merged: &Merged, is_counted: bool, charged: Size, real: Size) {
    let case = format!(
        "{:?}, IPv6 {}, segments of {}, counted {is_counted}, headers {:02x?}: charged {charged:?}, is {real:?}",
        merged.kind, merged.is_ipv6, merged.segment, merged.headers
    );
    let more = |bytes: u64| charged.1 <= real.1 + bytes;
    assert!(charged.0 >= real.0 && charged.1 >= real.1, "{case}");
    match merged.kind {
        Kind::Tcp if is_counted || !merged.in_udp => assert_eq!(charged, real, "{case}"),
        // Fragments of IPv6 have a header more.
        Kind::Udp if is_counted => {
            let most = if merged.is_ipv6 { 8 } else { 0 };
            assert!(charged.0 == real.0 && more(most), "{case}");
        }
        // UDP packets have a header more each.
        Kind::Fragments if is_counted => {
            assert!(charged.0 == real.0 && more(8 * real.0), "{case}");
        }
        Kind::Udp | Kind::Fragments if !merged.in_udp => {
            // The UDP header may be part of the segments.
            let packets = 8_u64.div_ceil(merged.segment as u64);
            let most = more(packets * merged.headers.len() as u64 + 8 * real.0);
            assert!(charged.0 <= real.0 + packets && most, "{case}");
        }
        _ => {}
    }
}

#[test]
fn merged_packet_is_charged_as_the_packets_it_is_cut_into() {
    let seed = random::seed(0x6d65_7267_6564);
    println!("seed {seed:#x}");
    let mut rng = Rng::with_seed(seed);
    let mut kinds = [0; 3];
    for _ in 0..20_000 {
        let merged = merged(&mut rng, MACS, 2);
        let real = cut(&merged);
        let is_counted = rng.bool();
        let count = if is_counted { real.0 as u32 } else { 0 };
        let charged = charged(&merged.frame(), merged.segment as u32, count);
        check(&merged, is_counted, charged, real);
        kinds[merged.kind as usize] += 1;
    }
    assert!(kinds.iter().all(|&count| count > 1_000), "{kinds:?}");
}

#[test]
fn packet_with_unknown_headers_is_charged_as_the_most_that_it_can_become() {
    let seed = random::seed(0x756e_6b6e_6f77_6e00);
    println!("seed {seed:#x}");
    let mut rng = Rng::with_seed(seed);
    for _ in 0..20_000 {
        let mut merged = merged(&mut rng, MACS, 2);
        // An EtherType that nothing knows, or more extension headers than anything reads.
        let first: &[u8] = match rng.bool() {
            true => &[4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 0x99, 0x99],
            false => &[],
        };
        if first.is_empty() {
            let mut headers = vec![4; 12];
            headers.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 60, 64]);
            headers.resize(14 + 40, 0);
            (0..rng.usize(30..60)).for_each(|_| headers.extend([60, 0, 1, 4, 0, 0, 0, 0]));
            merged.transport += headers.len();
            merged.headers.splice(0..0, headers);
        } else {
            merged.headers[..first.len()].copy_from_slice(first);
        }
        let real = cut(&merged);
        let count = if rng.bool() { real.0 as u32 } else { 0 };
        let charged = charged(&merged.frame(), merged.segment as u32, count);
        assert!(
            charged.0 >= real.0 && charged.1 >= real.1,
            "charged {charged:?}, is {real:?}, count {count}: {:02x?}",
            merged.headers
        );
    }
}

#[test]
fn header_that_the_kernel_removes_from_segments_is_not_charged() {
    let mut headers = vec![4; 12];
    headers.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 0, 64]);
    headers.resize(14 + 40, 0);
    // A jumbogram: TCP follows.
    headers.extend([6, 0, 0xc2, 4, 0, 1, 0, 0]);
    headers.extend([
        0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0,
    ]);
    let sent = 14 + 40 + 20;
    for payload in [65_536, 100_000] {
        let frame = [&headers[..], &vec![0; payload]].concat();
        let packets = payload.div_ceil(1_000);
        let wanted = (packets as u64, (payload + packets * sent) as u64);
        assert_eq!(charged(&frame, 1_000, packets as u32), wanted);
        assert_eq!(charged(&frame, 1_000, 0), wanted);
    }
}

/// A virtual machine writes a tunnel into the payload of its UDP packets, whose headers end beyond the packet.
#[test]
fn made_up_tunnel_of_a_virtual_machine_hides_no_packets() {
    const PAYLOAD: usize = 60_000;
    const SEGMENT: u32 = 20;
    let mut frame = [[4; 6], [2; 6]].concat();
    frame.extend([0x08, 0x00]);
    // IPv4 with UDP.
    let length = (20 + 8 + PAYLOAD) as u16;
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend([0x12, 0x34, 0x12, 0xb5]);
    frame.extend((length - 20).to_be_bytes());
    frame.extend([0, 0]);
    let headers = frame.len() as u64;
    // vxlan, Ethernet, IPv6, and destination options of 2,048 bytes each.
    frame.extend([8, 0, 0, 0, 0, 0, 1, 0]);
    frame.extend([2; 12]);
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0xff, 0xff, 60, 64]);
    frame.extend([0x20; 32]);
    while frame.len() < headers as usize + PAYLOAD {
        frame.extend([60, 255]);
        frame.extend([0; 2_046]);
    }
    frame.truncate(headers as usize + PAYLOAD);
    let packets = PAYLOAD as u64 / u64::from(SEGMENT);
    let (charged, bytes) = charged(&frame, SEGMENT, 0);
    assert!(charged >= packets, "{charged}");
    assert!(bytes >= PAYLOAD as u64 + packets * headers, "{bytes}");
}

#[test]
fn sctp_packets_are_those_that_the_kernel_has_counted() {
    let mut frame = vec![4; 12];
    frame.extend([0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 132, 0, 0]);
    frame.resize(14 + 20 + 12 + 3_000, 0);
    assert_eq!(charged(&frame, 0xffff, 3), (3, 3 * (14 + 20 + 12) + 3_000));
    let (packets, bytes) = charged(&frame, 0xffff, 0);
    assert!(packets >= 3_000 && bytes >= 3_000 * 47, "{packets} {bytes}");
}

#[test]
fn program_in_the_kernel_charges_the_same() {
    need_kernel!();
    if !need::tcx() {
        return;
    }
    let seed = random::seed(0x7463_7800);
    println!("seed {seed:#x}");
    let mut rng = Rng::with_seed(seed);
    let kernel = Kernel::at_each_hook(&Limit::new("1/h", "1")).pop().unwrap();
    let mut before = (0, 0);
    for round in 0..2_000 {
        let merged = merged(&mut rng, MACS, 2);
        let mut frame = merged.frame();
        if rng.u32(0..4) == 0 {
            // Whatever a sender may write.
            let index = rng.usize(14..merged.headers.len());
            frame[index] = rng.u8(..);
        }
        let count = *random::one(&mut rng, &[0, merged.cut().len() as u32, 1, 65_535]);
        let segment = *random::one(&mut rng, &[merged.segment as u32, 0xffff, 1]);
        let wanted = charged(&frame, segment, count);
        // The kernel takes one page.
        let begin = &frame[..frame.len().min(3_000)];
        kernel.offer_merged(begin, frame.len() as u32, segment, count);
        let counters = kernel.tables.fast_path().unwrap().by_reason;
        let after = (
            counters.iter().map(|count| count.packets).sum(),
            counters.iter().map(|count| count.bytes).sum(),
        );
        let more: Size = (after.0 - before.0, after.1 - before.1);
        assert_eq!(more, wanted, "round {round}: {:02x?}", merged.headers);
        before = after;
    }
}
