//! Refused sources are remembered for some seconds: long enough for a retransmission under a flood, not for copies.

use std::{cell::Cell, collections::VecDeque};

use limiter_common::{
    policy::second_chance::{KEPT, Place, WORDS, lines},
    table::{
        Seed,
        key::{IPV4, SourceKey},
    },
};
use proptest::{collection::vec, prelude::*};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 77_777 * SECOND;

type Line = [Cell<u32>; WORDS as usize];

fn key(address: u32) -> SourceKey {
    SourceKey::new(IPV4, limiter_common::table::key::ipv4_words(address), 0, 0)
}

fn place(address: u32, sets: u32) -> Place {
    Place::of(&Seed::KNOWN, &key(address), sets)
}

/// Addresses of one line of the smallest filter.
fn neighbours(number: usize) -> Vec<Place> {
    let places = (0..).map(|address| place(address, 2));
    places
        .filter(|place| place.line == 7)
        .take(number)
        .collect()
}

#[test]
fn second_packet_counts_after_the_gap_and_until_it_is_forgotten() {
    let place = place(1, 2);
    // Each pair of times is a unit of 67 ms apart from the other side of the limit, wherever the units begin.
    for offset in [0, 1, 40_000_000, 67_108_863] {
        for (after, wanted) in [
            (0, false),
            (268_000_000, false),
            (336_000_000, true),
            (SECOND, true),
            (5 * SECOND, true),
            (8_589_000_000, true),
            (8_658_000_000, false),
            (60 * SECOND, false),
        ] {
            let line = Line::default();
            let first = START + offset;
            assert!(!place.was_refused(&line, first));
            assert_eq!(place.was_refused(&line, first + after), wanted, "{after}");
        }
    }
}

/// Copies do not move the time of the first refusal, or a client that repeats often would never get in.
#[test]
fn copies_change_nothing() {
    let (place, line) = (place(1, 2), Line::default());
    for copy in 0..4 {
        assert!(!place.was_refused(&line, START + copy * 60_000_000));
    }
    assert!(place.was_refused(&line, START + 400_000_000));
    let (ago, left) = place.times(&line, START + SECOND).unwrap();
    assert!(ago.abs_diff(SECOND) < 67_200_000, "{ago}");
    assert!((ago + left).abs_diff(8_590_000_000) < 1_000_000, "{left}");
}

#[test]
fn line_remembers_its_last_sources() {
    let (all, line) = (neighbours(KEPT as usize + 1), Line::default());
    for place in &all {
        assert!(!place.was_refused(&line, START));
    }
    let again = all.iter().skip(1);
    assert!(
        again
            .clone()
            .all(|place| place.was_refused(&line, START + SECOND))
    );
    assert!(!all[0].was_refused(&line, START + SECOND), "the oldest one");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// The line against a list of what it must remember, with times as whole numbers.
    #[test]
    fn line_agrees_with_a_list(
        packets in vec((0..20_usize, 0..400_u64, 0..40_u32), 1..200)
    ) {
        let (all, line) = (neighbours(20), Line::default());
        let mut now = START;
        // The oldest one first: number of the source, and unit of its refusal.
        let mut list: VecDeque<(usize, u64)> = VecDeque::new();
        for (source, milliseconds, far) in packets {
            now += milliseconds * 1_000_000 + if far == 0 { 200 * SECOND } else { 0 };
            let unit = now / (1 << 26);
            let known = list.iter_mut().find(|(one, _)| *one == source);
            let wanted = match known {
                Some((_, then)) => match (unit - *then) % 4_096 {
                    age @ 0..=128 => age >= 5,
                    _ => {
                        *then = unit;
                        false
                    }
                },
                None => {
                    if list.len() == 15 {
                        list.pop_front();
                    }
                    list.push_back((source, unit));
                    false
                }
            };
            prop_assert_eq!(all[source].was_refused(&line, now), wanted, "{} at {}", source, now);
        }
    }
}

/// Sources that have a second chance after this time, of those refused in a flood of `rate` packets a second, and
/// sources of the flood that are taken for one that came before.
fn simulated(rate: u64, after: u64) -> (f64, u64) {
    let sets = 32_768;
    let filter: Vec<Line> = (0..lines(sets)).map(|_| Line::default()).collect();
    let ask = |address: u32, now| {
        let place = place(address, sets);
        place.was_refused(&filter[place.line as usize], now)
    };
    let mut address = 0_u32;
    let mut mistaken = 0;
    let mut flood = |from: u64, until: u64| {
        let packets = (until - from) * (rate / 1_000) / 1_000_000;
        for packet in 0..packets {
            // Every address once, in an order without a pattern.
            address = address.wrapping_add(0x9e37_79b1);
            mistaken += u64::from(ask(address, from + packet * 1_000_000_000 / rate));
        }
    };
    flood(START, START + 2 * SECOND);
    let clients: Vec<u32> = (0..1_000)
        .map(|number| 0x0a00_0000 + number * 257)
        .collect();
    let then = START + 2 * SECOND;
    for client in &clients {
        ask(*client, then);
    }
    flood(then, then + after);
    let found = clients.iter().filter(|client| ask(**client, then + after));
    (found.count() as f64 / 1_000.0, mistaken)
}

/// The table of 65,536 sources. Retransmissions come after 1 s; Linux repeats then after another second, or after two.
#[test]
fn flood_of_200_000_a_second_leaves_the_memory_of_a_retransmission() {
    for (rate, after, least) in [
        (20_000, 5, 0.99),
        (50_000, 4, 0.99),
        (200_000, 1, 0.99),
        (200_000, 2, 0.65),
    ] {
        let (found, mistaken) = simulated(rate, after * SECOND);
        println!("{rate}/s, {after} s: {found}, {mistaken} mistaken");
        assert!(found >= least, "{rate}/s: {found} after {after} s");
        assert!(mistaken <= rate / 10_000, "{rate}/s: {mistaken}");
    }
}
