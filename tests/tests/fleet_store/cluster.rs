//! A cluster of three nodes serves each shard by its own node, and a failed node affects only its own sources.

use std::time::Duration;

use limiter_fleet::{
    member::{Group, Round, SHARDS},
    store::{Fault, Options, shard},
};
use limiter_tests::{need_redis, redis::Cluster};

use super::{
    Asked, FLEET, SLOW, expect_fault, lists::add, members::held, options, round, source, totals,
    try_connect,
};

/// Each shard's round goes to the node of the shard. A round of several shards is refused.
#[test]
fn rounds_and_records_are_spread_over_three_nodes() {
    need_redis!();
    let cluster = Cluster::start();
    let mut store = try_connect(&options(&cluster.nodes[1].url())).unwrap();
    assert!(store.store.is_cluster());
    expect_fault!(
        Fault::NotOneShard,
        store.try_exchange(1, &round(1, &[(1, 1)])).unwrap_err()
    );
    for number in [1, 2, 2] {
        for index in 0..SHARDS {
            let of_shard = |i: &u32| shard(SLOW.0, &source(*i)) == index;
            let items: Vec<_> = (0..3_000).filter(of_shard).map(|i| (i, 2)).collect();
            assert!(!items.is_empty());
            let round = Round {
                group: Group { of: SHARDS, index },
                ..round(number, &items)
            };
            let answer = store.exchange(1, &round);
            assert!(totals(&answer).iter().all(|total| *total == 2 * number));
        }
    }
    let sizes = cluster.nodes.iter().map(|node| {
        let text = node.cli(&["DBSIZE"]);
        text.parse::<usize>().unwrap()
    });
    let sizes: Vec<_> = sizes.collect();
    assert_eq!(sizes.iter().sum::<usize>(), 3_000 + SHARDS as usize);
    assert!(sizes.iter().all(|size| *size > 600), "{sizes:?}");
    // Members and lists are on one node.
    let Asked { runtime, store } = &mut store;
    runtime.block_on(async {
        let minute = Duration::from_secs(60);
        let limits = [held("all", 1)];
        let beat = store.heartbeat(FLEET, 1, "one", &limits, minute).await;
        assert_eq!(beat.unwrap().hosts, 1);
        let beat = store.heartbeat(FLEET, 2, "two", &[], minute).await;
        let beat = beat.unwrap();
        assert_eq!((beat.hosts, &beat.held[..]), (2, &limits[..]));
        let edit = add(&["192.0.2.0/24"], None);
        let added = store.edit(FLEET, "deny", &edit).await.unwrap();
        assert_eq!(added.prefixes, 1);
        let names = ["deny", "allow"].map(str::to_owned);
        let read = store.lists(FLEET, &names).await.unwrap();
        assert_eq!(read.lists[0].as_ref().unwrap().len(), 1);
    });
}

/// The other sources are served by an existing connection and by a new one.
#[test]
fn failed_node_affects_only_its_own_sources() {
    need_redis!();
    let mut cluster = Cluster::start();
    let options = Options {
        connect_timeout: Duration::from_secs(1),
        response_timeout: Duration::from_secs(1),
        ..options(&cluster.nodes[0].url())
    };
    let mut before = try_connect(&options).unwrap();
    let of_shard = |index: u32, number| {
        let source = (0..).find(|i| shard(SLOW.0, &source(*i)) == index);
        Round {
            group: Group { of: SHARDS, index },
            ..round(number, &[(source.unwrap(), 1)])
        }
    };
    let on = |cluster: &Cluster, index: u32| {
        let name = format!("{{edge:{index:02x}}}");
        let slot = cluster.nodes[0].cli(&["CLUSTER", "KEYSLOT", &name]);
        // redis-cli divides the slots into three equal parts.
        slot.parse::<usize>().unwrap() * 3 / 16_384
    };
    for index in 0..SHARDS {
        before.exchange(1, &of_shard(index, 1));
    }
    cluster.nodes[2].stop();
    let mut after = try_connect(&options).unwrap();
    let (mut served, mut failed) = (0, 0);
    for index in 0..16 {
        let is_there = on(&cluster, index) < 2;
        if !is_there && failed >= 4 {
            // Skips further slots of the failed node, because each attempt takes one second.
            continue;
        }
        for (store, number) in [(&mut before, 2), (&mut after, 3)] {
            let round = of_shard(index, number);
            // A healthy node may exceed the timeout on a busy machine.
            let mut answer = store.try_exchange(1, &round);
            for _ in 0..if is_there { 20 } else { 0 } {
                if answer.is_err() {
                    answer = store.try_exchange(1, &round);
                }
            }
            assert_eq!(answer.is_ok(), is_there, "{index}: {answer:?}");
            let count = if is_there { &mut served } else { &mut failed };
            *count += 1;
        }
    }
    assert!(served >= 4 && failed >= 4, "{served} {failed}");
}
