//! A host's traffic does not grow with the number of hosts.

use limiter_tests::{need_redis, redis::Redis};

use super::{Asked, round};

const SOURCES: u32 = 200;
const ROUNDS: u64 = 3;

/// Bytes of one member in one round, there and back. With `shared`, all members have the same sources.
fn bytes(members: u32, shared: bool) -> u64 {
    let redis = Redis::start();
    let mut store = Asked::of(&redis);
    let moved = || -> u64 {
        let stats = redis.cli(&["INFO", "stats"]);
        let fields = stats.lines().filter_map(|line| line.split_once(':'));
        let totals = fields
            .filter(|(name, _)| ["total_net_input_bytes", "total_net_output_bytes"].contains(name));
        totals
            .map(|(_, bytes)| bytes.trim().parse::<u64>().unwrap())
            .sum()
    };
    let mut all_round = |number| {
        for member in 0..members {
            let first = if shared { 0 } else { member * SOURCES };
            let items: Vec<_> = (first..first + SOURCES).map(|source| (source, 3)).collect();
            store.exchange(u64::from(member) + 1, &round(number, &items));
        }
    };
    // The first round makes the records.
    all_round(1);
    let before = moved();
    (2..2 + ROUNDS).for_each(all_round);
    (moved() - before) / (ROUNDS * u64::from(members))
}

#[test]
fn member_traffic_does_not_grow_with_the_fleet() {
    need_redis!();
    for shared in [false, true] {
        let (few, many) = (bytes(5, shared), bytes(20, shared));
        // Each source needs at least its name and its counters.
        assert!(few > u64::from(SOURCES) * 40, "{few} bytes");
        assert!(
            5 * many < 6 * few && 5 * few < 6 * many,
            "{few} and {many} bytes, shared: {shared}"
        );
    }
}
