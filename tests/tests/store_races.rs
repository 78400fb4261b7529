//! Two CPUs never enter a source twice, and no source gets more than its tokens, while entries change hands all the
//! time.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use fastrand::Rng;
use limiter_common::{
    abi::{CLOCK_PACKET, KEPT_FOR},
    policy::verdict::Reason,
    table::key::SourceKey,
};
use limiter_config::Settings;
use limiter_tests::{
    cpus::{alone, in_rounds},
    engine::{FRAME_MAX, Kernel},
    need_kernel,
    packet::Frame,
    settings,
};

const START: u64 = 1_000_000_000_000;

/// The source with this number: an IPv4 address, an IPv6 network, or an address of one IPv6 network.
fn source(number: u32) -> IpAddr {
    let network = |low: u32| u128::from(0x2001_0db8_0000_0000 + u64::from(low)) << 64;
    match number % 3 {
        0 => Ipv4Addr::from(0x0a00_0000 + number).into(),
        1 => Ipv6Addr::from(network(number) + 1).into(),
        _ => Ipv6Addr::from(network(0) + u128::from(number)).into(),
    }
}

/// Settings with a table of `sources`, and a limit for each of these keys. A single limit takes the fast path.
fn table(sources: u32, keys: &[&str], quota: &str) -> Settings {
    let limit = |(number, key): (usize, &&str)| {
        format!("[[limit]]\nname = \"l{number}\"\nkey = \"{key}\"\n{quota}\n")
    };
    let limits: String = keys.iter().enumerate().map(limit).collect();
    settings(&format!(
        "max_sources = {sources}\nnew_sources = \"none\"\n{limits}"
    ))
}

fn packet(number: u32) -> Vec<u8> {
    Frame::from(source(number)).bytes()
}

/// Keys for the fast path and for the full path, narrow and wide.
const KEYS: [&[&str]; 3] = [&["/32,/64"], &["/32,/128"], &["/32,/64", "/24,/128"]];

/// Number of packets that each CPU sends at one time.
const AT_ONCE: usize = 6;

/// The packets of one time. Both CPUs send all of them, each in its own order.
struct Round {
    now: u64,
    numbers: [u32; AT_ONCE],
}

fn rounds(count: usize, pool: u32, rng: &mut Rng) -> Vec<Round> {
    let mut now = START;
    let steps = [0, 300, 1_000, 1_000, 4_000];
    let round = |_| {
        now += if rng.u32(0..40) == 0 {
            KEPT_FOR + 10_000
        } else {
            steps[rng.usize(0..steps.len())]
        };
        Round {
            now,
            numbers: std::array::from_fn(|_| rng.u32(0..pool)),
        }
    };
    (0..count).map(round).collect()
}

/// Runs the rounds on two CPUs, which wait for each other before each round. Returns the verdicts by round.
fn on_two_cpus(kernel: &Kernel, rounds: &[Round]) -> Vec<Vec<(u32, Reason)>> {
    let both = in_rounds(rounds.len(), |cpu, index| {
        let mut numbers = rounds[index].numbers;
        numbers.rotate_left(cpu * (index % AT_ONCE));
        numbers.map(|number| (number, kernel.offer(&packet(number), rounds[index].now)))
    });
    both.into_iter().map(|pair| pair.concat()).collect()
}

/// Panics unless the table is consistent and agrees with the counters.
fn expect_sound(kernel: &Kernel) {
    let placed = kernel.store.expect_sound();
    let counters = kernel.tables.counters().unwrap();
    assert_eq!(
        placed.len() as u64,
        counters.sources_added - counters.sources_removed,
        "{counters:?}"
    );
    assert!(placed.len() as u64 <= kernel.tables.sets.capacity());
    assert_eq!(kernel.tables.sets.sources().count(), placed.len());
}

/// Panics if a bucket gave more than it held plus its refill, in whole ticks. Replays the admitted packets.
fn expect_shares(settings: &Settings, rounds: &[Round], outcomes: &[Vec<(u32, Reason)>]) {
    for (slot, limit) in (0..).zip(&settings.limits) {
        let quota = limit.quota(FRAME_MAX).unwrap().in_kernel;
        let (cost, tau) = (u128::from(quota.cost_of(60)), u128::from(quota.tau));
        let mut full_at: HashMap<SourceKey, u128> = HashMap::new();
        for (round, outcome) in rounds.iter().zip(outcomes) {
            let now = u128::from(round.now) << 8;
            for (number, reason) in outcome {
                if *reason != Reason::Admitted {
                    continue;
                }
                let bucket = full_at.entry(limit.key.of(slot, source(*number), 0));
                let full = bucket.or_insert(0);
                *full = (*full).max(now) + cost;
                assert!(
                    *full <= now + tau,
                    "{}, source {number}: more than its share at {}",
                    limit.name,
                    round.now
                );
            }
        }
    }
}

#[test]
fn table_stays_consistent_while_two_cpus_replace_entries() {
    need_kernel!();
    let _alone = alone();
    const ROUNDS: usize = 1_500;
    let mut rng = Rng::with_seed(0x5e75);
    for keys in KEYS {
        for sources in [4, 16, 64] {
            let settings = table(sources, keys, "rate = \"1M/s\"\nburst = 3");
            let kernel = Kernel::with_clock(&settings, CLOCK_PACKET);
            let rounds = rounds(ROUNDS, 3 * sources + 6, &mut rng);
            let some = rounds.chunks(100).flat_map(|some| {
                let outcomes = on_two_cpus(&kernel, some);
                expect_sound(&kernel);
                outcomes
            });
            let outcomes: Vec<_> = some.collect();
            let mut by_reason: BTreeMap<Reason, u64> = BTreeMap::new();
            for (_, reason) in outcomes.iter().flatten() {
                *by_reason.entry(*reason).or_default() += 1;
            }
            println!("{keys:?}, {sources}: {by_reason:?}");
            expect_shares(&settings, &rounds, &outcomes);
            let counters = kernel.tables.counters().unwrap();
            for reason in Reason::ALL {
                let seen = by_reason.get(&reason).copied().unwrap_or_default();
                let counted = counters.by_reason[reason as usize].packets;
                assert_eq!(counted, seen, "{keys:?}, {sources}: {reason:?}");
            }
            for slot in 0..keys.len() as u32 {
                let of_limit = kernel.tables.limit(slot).unwrap().admitted.packets;
                let fast_path = kernel.tables.fast_path().unwrap();
                let by_fast_path = fast_path.by_reason[Reason::Admitted as usize].packets;
                assert_eq!(of_limit + by_fast_path, by_reason[&Reason::Admitted]);
            }
            // Entries were replaced, and some sources found no room.
            assert!(counters.sources_removed > 50, "{counters:?}");
            assert!(by_reason[&Reason::Admitted] > 300, "{by_reason:?}");
            assert!(by_reason.contains_key(&Reason::NewSource), "{by_reason:?}");
        }
    }
}
