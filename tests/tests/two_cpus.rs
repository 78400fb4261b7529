//! Two CPUs that race for tokens get no more than there are.

use std::net::{IpAddr, Ipv4Addr};

use limiter_common::{
    abi::{CLOCK_KERNEL, CLOCK_PACKET},
    policy::verdict::Reason,
    table::key::SourceKey,
};
use limiter_kernel::sys::clock;
use limiter_tests::{
    cpus::{alone, in_rounds, on_two},
    engine::{Kernel, Limit, constants},
    need_kernel,
    packet::Frame,
    settings,
};

/// The test repeats this many times, with an existing bucket that has one token left, and with a new source.
#[test]
fn example_10_two_cpus_admit_one_packet_for_one_token() {
    need_kernel!();
    let _alone = alone();
    const ROUNDS: usize = 5_000;
    const NOW: u64 = 1_000_000_000_000;
    for (burst, charged_before) in [("2", true), ("1", false)] {
        let mut limit = Limit::new("1/h", burst);
        limit.capacity = 2 * ROUNDS as u32;
        let kernel = Kernel::new(&limit);
        let offer = |round: usize| {
            let source = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + round as u32));
            kernel.offer(&Frame::from(source).bytes(), NOW)
        };
        if charged_before {
            (0..ROUNDS).for_each(|round| assert_eq!(offer(round), Reason::Admitted));
        }
        let reasons = in_rounds(ROUNDS, |_, round| offer(round));
        let mut contended = 0;
        for (round, mut pair) in reasons.into_iter().enumerate() {
            pair.sort();
            // A test-run can be preempted while it holds the lock of a set for a new source. Then the other CPU gives up.
            let gave_up = !charged_before && pair == [Reason::Admitted, Reason::Contended];
            contended += usize::from(gave_up);
            let is_exact = gave_up || pair == [Reason::Admitted, Reason::Limit];
            assert!(is_exact, "round {round}, burst {burst}: {pair:?}");
        }
        assert!(contended <= ROUNDS / 100, "{contended} contended");
    }
}

/// The packets come faster than these rates, but not from an emulated processor.
#[test]
fn two_cpus_flooding_one_source_never_exceed_burst_plus_rate() {
    flood_one_source(&[
        ("100k/s", 1e5, 1e6, "source", 0),
        ("10k/s", 1e4, 1e5, "source", 0),
        ("100k/s", 1e5, 1e6, "interface", 10),
    ]);
}

#[test]
fn two_cpus_flooding_one_source_never_exceed_a_slow_rate() {
    flood_one_source(&[("5/s", 5.0, 10.0, "source", 0)]);
}

/// Floods from two CPUs for three seconds, with each rate, the same per second, burst, key and size of a lease.
///
/// At least 99 % of burst + rate × t passes. The bursts are so large that no bucket is full again while a busy machine
/// pauses both threads: otherwise tokens would be missing from the lower bound.
fn flood_one_source(limits: &[(&str, f64, f64, &str, u64)]) {
    need_kernel!();
    let _alone = alone();
    for &(rate, per_second, burst, key, lease) in limits {
        let mut limit = Limit::new(rate, &burst.to_string());
        limit.key = key.parse().unwrap();
        let mut config = limit.config();
        config.clock = CLOCK_KERNEL;
        let kernel = Kernel::load(&limit, &config, true);
        let source = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
        let packet = Frame::from(source).bytes();

        let before = clock::now().unwrap();
        // After this packet, the bucket is not full, and refills.
        assert!(kernel.repeat(&packet, 1));
        on_two(|_| {
            while clock::now().unwrap() < before + 3_000_000_000 {
                kernel.repeat(&packet, 500_000);
            }
        });
        // A test-run with repetitions returns long after its last packet, because the kernel removes the program from
        // its XDP dispatcher first. This loop spends the refill since then.
        while kernel.repeat(&packet, 1) {}
        let after = clock::now().unwrap();

        let counters = kernel.tables.counters().unwrap();
        let admitted = counters.by_reason[Reason::Admitted as usize].packets;
        let most = burst + per_second * (after - before) as f64 / 1e9;
        let seen: u64 = counters.by_reason.iter().map(|count| count.packets).sum();
        assert!(
            seen as f64 > 2.0 * most,
            "{rate}: the CPUs did hammer: {seen}"
        );
        assert!(admitted as f64 <= most, "{rate}: {admitted} > {most}");
        assert!(
            admitted as f64 >= 0.99 * most - 1.0,
            "{rate}: {admitted} < 99 % of {most}, {counters:?}"
        );
        figures_of_the_source_agree(&kernel, &limit.of(source), admitted, (seen, 2 * lease));
    }
}

/// Both CPUs send new sources at one time. At most the unused lease of each CPU may be missing.
#[test]
fn two_cpus_admit_no_more_new_sources_than_tokens() {
    need_kernel!();
    let _alone = alone();
    const TOKENS: u32 = 4_096;
    const NOW: u64 = 1_000_000_000_000;
    let text = format!(
        "new_sources = \"1/h\"\nnew_sources_burst = {TOKENS}\n[[limit]]\nname = \"all\"\nrate = \"5/s\"\nburst = 10\n"
    );
    let settings = settings(&text);
    let lease = constants(&settings, CLOCK_PACKET).0.new_sources.lease;
    assert!(lease > 1, "a lease has only one token");
    let kernel = Kernel::of(&settings);
    let reasons = in_rounds(TOKENS as usize, |cpu, round| {
        let source = 0x0a00_0000 + (cpu as u32) * TOKENS + round as u32;
        let source = IpAddr::V4(Ipv4Addr::from(source));
        kernel.offer(&Frame::from(source).bytes(), NOW)
    });
    let reasons: Vec<_> = reasons.into_iter().flatten().collect();
    let count = |wanted| reasons.iter().filter(|reason| **reason == wanted).count() as u64;
    // A test-run can be preempted while it holds the lock of a set for a new source. Then the other CPU gives up.
    let (admitted, contended) = (count(Reason::Admitted), count(Reason::Contended));
    let decided = admitted + count(Reason::NewSource) + contended;
    assert_eq!(decided, reasons.len() as u64, "{reasons:?}");
    let most = u64::from(TOKENS);
    assert!(contended <= most / 100, "{contended} contended");
    let least = most - 2 * lease - contended;
    assert!((least..=most).contains(&admitted), "{admitted}");
}

/// Panics unless the source's counts equal those of the interface. Up to `pending` packets of the last leases are not
/// counted yet. Only the full path, which has the leases, counts packets that lost the race for the bucket.
fn figures_of_the_source_agree(
    kernel: &Kernel,
    key: &SourceKey,
    admitted: u64,
    (seen, pending): (u64, u64),
) {
    let entry = kernel.entry(key).unwrap();
    let missing = admitted - entry.passed;
    assert!(missing <= pending, "{missing}");
    let counters = kernel.tables.counters().unwrap();
    let contended = match pending {
        0 => counters.by_reason[Reason::Contended as usize].packets,
        _ => 0,
    };
    assert_eq!(admitted + entry.refused + contended, seen);
}
