//! Sources of one set of the kernel's table never share a bucket, and find room until the set's counts are full.
//!
//! `table_model` and `table_properties` of limiter-common test the table's code in every interleaving and at every use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use limiter_common::{abi::KEPT_FOR, arithmetic::bucket::ticks, policy::verdict::Reason};
use limiter_tests::{
    engine::{Kernel, Limit},
    need_kernel,
    packet::Frame,
};

const START: u64 = 1_000_000_000_000;
const HOUR: u64 = 3_600_000_000_000;

/// A permutation of all numbers.
fn scattered(number: u32) -> u32 {
    let number = (number ^ number >> 16).wrapping_mul(0x7feb_352d);
    let number = (number ^ number >> 15).wrapping_mul(0x846c_a68b);
    number ^ number >> 16
}

/// The source with this number: an IPv4 address or an IPv6 network.
fn narrow(number: u32) -> IpAddr {
    if number.is_multiple_of(2) {
        Ipv4Addr::from(scattered(number)).into()
    } else {
        let network = 0x2001_0db8_0000_0000 + u64::from(scattered(number));
        Ipv6Addr::from((u128::from(network) << 64) + 1).into()
    }
}

/// An attacker cannot find such sources without the seed.
#[test]
fn sources_of_one_set_have_separate_buckets() {
    need_kernel!();
    let limit = Limit {
        capacity: 1_024,
        ..Limit::new("1/h", "3")
    };
    let kernel = Kernel::new(&limit);
    let home = 77;
    let candidates = (0..).map(narrow);
    let of_home = candidates.filter(|source| kernel.store.home(&limit.of(*source)) == home);
    let sources: Vec<IpAddr> = of_home.take(2_000).collect();
    // Neighbours of the set have counts in its word, and no sources in overflow sets.
    let mut known = Vec::new();
    for (i, source) in (0..).zip(&sources) {
        let packet = Frame::from(*source).bytes();
        match kernel.offer(&packet, START + i) {
            Reason::Admitted => known.push((*source, START + i)),
            reason => assert_eq!(reason, Reason::NewSource),
        }
    }
    // The set has room for two sources, and its count of sources in overflow sets has four bits.
    assert_eq!(known.len(), 2 + 15, "sources of the set");
    let placed = kernel.store.expect_sound();
    assert_eq!(placed.len(), known.len());
    let hour = ticks(HOUR);
    for (source, since) in &known {
        let key = limit.of(*source);
        assert_eq!(kernel.entry(&key).unwrap().tat, ticks(*since) + hour);
        let packet = Frame::from(*source).bytes();
        let later = START + 5_000;
        assert!(kernel.passes(&packet, later) && kernel.passes(&packet, later));
        assert_eq!(kernel.offer(&packet, later), Reason::Limit, "{source}");
        let entry = kernel.entry(&key).unwrap();
        assert_eq!(entry.tat, ticks(*since) + 3 * hour);
        assert_eq!((entry.passed, entry.refused), (3, 1));
    }
    // Sources that leave make room, first in the set itself, and then in other sets, when these get new sources.
    let later = START + 3 * HOUR + KEPT_FOR + 5_000;
    let mut offer = |number: usize| kernel.offer(&Frame::from(sources[number]).bytes(), later);
    let again: Vec<Reason> = (1_000..1_100).map(&mut offer).collect();
    let room = again.iter().take_while(|reason| reason.passes()).count();
    assert_eq!(room, 2);
    assert!(
        again[room..]
            .iter()
            .all(|reason| *reason == Reason::NewSource)
    );
    let offer_narrow = |number| kernel.offer(&Frame::from(narrow(number)).bytes(), later);
    (10_000_000..10_004_000).for_each(|number| {
        let _ = offer_narrow(number);
    });
    let placed = kernel.store.expect_sound();
    let stayed = known.iter().filter(|(source, _)| {
        let key = limit.of(*source);
        placed.iter().any(|entry| entry.key == key)
    });
    assert_eq!(stayed.count(), 0, "sources that others have not replaced");
}
