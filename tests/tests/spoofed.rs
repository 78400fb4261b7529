//! A flood of made-up sources that fills a small table costs known sources no packet and no bucket.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr},
};

use limiter_common::{abi::CLOCK_PACKET, policy::verdict::Reason};
use limiter_config::{Key, compile::FIRST_SLOT};
use limiter_tests::{engine::Kernel, need_kernel, packet::Frame, settings};

const START: u64 = 1_000_000_000_000;
/// Nanoseconds between two packets of the flood.
const STEP: u64 = 250_000;
const FLOOD: u32 = 40_000;
/// Packets of the flood between two packets of a known client, which sends five per second.
const BETWEEN: u32 = 800;
const CAPACITY: usize = 64;
const CLIENTS: u8 = 8;

fn client(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10 + number))
}

/// The place of each client in the table, and the number of its passed packets.
fn entries(kernel: &Kernel) -> Vec<(u32, u32, u64)> {
    let all = kernel.store.entries();
    let entry_of = |number| {
        let key = Key::default().of(FIRST_SLOT, client(number), 0);
        let mut found = all.iter().filter(|entry| entry.key == key);
        let entry = found.next().unwrap();
        assert!(found.next().is_none(), "client {number}: two buckets");
        (entry.set, entry.way, kernel.entry(&key).unwrap().passed)
    };
    (0..CLIENTS).map(entry_of).collect()
}

/// Checks that half of the clients, which send less than the limit of 10 per second, pass, that the others, which send
/// 20, get 10, and that `new_sources` limits the sources of the flood.
fn known_clients_are_served(new_sources: &str, burst: f64, per_second: f64) {
    let text = format!(
        "max_sources = {CAPACITY}\n{new_sources}\n[[limit]]\nname = \"all\"\nrate = \"10/s\"\nburst = 10\n"
    );
    let settings = settings(&text);
    let kernel = Kernel::with_clock(&settings, CLOCK_PACKET);
    let mut admitted = [0_u64; CLIENTS as usize];
    let mut offer = |number: u8, now: u64| {
        let reason = kernel.offer(&Frame::from(client(number)).bytes(), now);
        let modest = number.is_multiple_of(2);
        assert!(
            reason == Reason::Admitted || !modest && reason == Reason::Limit,
            "{new_sources}: client {number} met {reason:?}"
        );
        admitted[usize::from(number)] += u64::from(reason == Reason::Admitted);
    };
    // Makes the clients known: each sends more than once.
    for round in 0..2 {
        (0..CLIENTS).for_each(|number| offer(number, START + round * STEP));
    }
    let places = |kernel: &Kernel| -> Vec<(u32, u32)> {
        let found = entries(kernel).into_iter();
        found.map(|(set, way, _)| (set, way)).collect()
    };
    let before = places(&kernel);
    let (mut taken_in, mut refused) = (0_u64, 0_u64);
    for i in 1..=FLOOD {
        let now = START + STEP * u64::from(i + 1);
        let spoofed = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + i));
        match kernel.offer(&Frame::from(spoofed).bytes(), now) {
            Reason::Admitted => taken_in += 1,
            Reason::NewSource => refused += 1,
            reason => panic!("{reason:?}"),
        }
        if i.is_multiple_of(BETWEEN) {
            (0..CLIENTS).for_each(|number| offer(number, now));
        }
        if i.is_multiple_of(BETWEEN / 4) {
            (1..CLIENTS)
                .step_by(2)
                .for_each(|number| offer(number, now));
            assert!(kernel.tables.sets.sources().count() <= CAPACITY);
        }
    }
    let seconds = (STEP * u64::from(FLOOD)) as f64 / 1e9;
    for (number, (_, _, passed)) in (0_u8..).zip(entries(&kernel)) {
        let admitted = admitted[usize::from(number)];
        assert_eq!(passed, admitted, "client {number}: one entry");
        if !number.is_multiple_of(2) {
            // The burst, and the refill since.
            let most = 10.0 + 10.0 * seconds;
            let admitted = admitted as f64;
            assert!(
                (most - 1.0..=most).contains(&admitted),
                "client {number}: {admitted} of {most}"
            );
        }
    }
    assert_eq!(places(&kernel), before, "{new_sources}: none has moved");
    assert!(taken_in > 50 && refused > taken_in, "{taken_in} {refused}");
    // Of many made-up addresses, the filter takes a few for ones that were refused before, by chance.
    let by_chance = kernel.tables.counters().unwrap().second_chances;
    assert!(
        by_chance <= u64::from(FLOOD) / 1_000,
        "{new_sources}: {by_chance} second chances"
    );
    let taken_in = taken_in - by_chance;
    // The clients took tokens for new sources too.
    let most = burst + per_second * seconds - f64::from(CLIENTS);
    assert!(taken_in as f64 <= most, "{new_sources}: {taken_in} {most}");
}

#[test]
fn spoofed_flood_leaves_known_clients_served_by_default() {
    need_kernel!();
    known_clients_are_served("", 65_536.0, 10_000.0);
}

#[test]
fn spoofed_flood_leaves_known_clients_served_with_few_new_sources() {
    need_kernel!();
    known_clients_are_served("new_sources = \"20/s\"\nnew_sources_burst = 30", 30.0, 20.0);
}

/// A new source takes one token for its buckets in all limits. A refused source takes none. A limit in shadow refuses
/// nothing: without a token, it alone has no bucket.
#[test]
fn new_sources_get_all_their_buckets_or_none() {
    need_kernel!();
    const RATE: u64 = 1_000;
    const BURST: u64 = 64;
    for shadow in [false, true] {
        let text = format!(
            "new_sources = \"{RATE}/s\"\nnew_sources_burst = {BURST}\n[[limit]]\nname = \"first\"\nrate = \"10/s\"\nshadow = {shadow}\n[[limit]]\nname = \"second\"\nrate = \"20/s\"\n"
        );
        let settings = settings(&text);
        let kernel = Kernel::with_clock(&settings, CLOCK_PACKET);
        let (mut taken_in, mut only_second, mut known) = (0_u64, 0_u64, HashSet::new());
        for i in 1..=FLOOD / 2 {
            let spoofed = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + i));
            let now = START + STEP * u64::from(i);
            match kernel.offer(&Frame::from(spoofed).bytes(), now) {
                Reason::Admitted => {
                    taken_in += 1;
                    known.extend([0, 1].map(|slot| Key::default().of(slot, spoofed, 0)));
                }
                // A limit in shadow that lacks a token refuses nothing.
                Reason::WouldDrop if shadow => {
                    only_second += 1;
                    known.insert(Key::default().of(1, spoofed, 0));
                }
                Reason::NewSource => {}
                reason => panic!("{reason:?}"),
            }
        }
        let tokens = BURST + RATE * STEP * u64::from(FLOOD / 2) / 1_000_000_000;
        // A second limit that waits for the first keeps its own part: a sixteenth of the burst, and a lease of one token.
        let most = tokens - if shadow { 0 } else { BURST / 16 };
        let all = taken_in + only_second;
        assert!(
            (most - most / 100..=most).contains(&all),
            "{all} came in, of {tokens} tokens, shadow {shadow}"
        );
        // Some of the entries were replaced, because their buckets were full again.
        let counters = kernel.tables.counters().unwrap();
        assert_eq!(
            counters.sources_added,
            2 * taken_in + only_second,
            "shadow {shadow}"
        );
        let entries = kernel.store.expect_sound();
        assert_eq!(
            entries.len() as u64,
            counters.sources_added - counters.sources_removed
        );
        let stranger = entries.iter().find(|entry| !known.contains(&entry.key));
        assert_eq!(stranger, None, "refused sources, shadow {shadow}");
    }
}
