//! The store's script and a small model agree on random rounds.

use std::collections::HashMap;

use limiter_common::table::key::SourceKey;
use limiter_fleet::{
    member::Round,
    store::{Of, Source, shard},
};
use limiter_tests::{need_redis, redis::Redis};

use super::{Asked, FLEET, model::Model, round, source};

const MILLISECOND: u64 = 256_000_000;
/// Limits with a bucket that refills fast, and with one that refills slowly.
const LIMITS: [Of<'static>; 2] = [
    Of {
        limit: "quick",
        cost: MILLISECOND / 7,
        cap: 20 * MILLISECOND,
    },
    Of {
        limit: "slow",
        cost: 900 * MILLISECOND + 1,
        cap: 60_000 * MILLISECOND,
    },
];

fn of(key: &SourceKey) -> Of<'static> {
    let [.., last] = source_bytes(key);
    LIMITS[usize::from(last % 2)]
}

fn source_bytes(key: &SourceKey) -> [u8; 4] {
    let [a, b, c, d, ..] = key.address[0].to_ne_bytes();
    [a, b, c, d]
}

fn name(key: &SourceKey) -> String {
    let limit = of(key).limit;
    let shard = shard(limit, key);
    format!("limiter:{{edge:{shard:02x}}}:s:{limit}:{}", Source(key))
}

/// Several members send rounds repeatedly and in any order, while records vanish or are overwritten.
#[test]
fn script_and_model_agree() {
    need_redis!();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let redis = Redis::start();
    let mut store = Asked::of(&redis);
    let mut model = Model::default();
    let mut sent: HashMap<u64, Vec<Round>> = HashMap::new();
    let mut charged = 0;
    for step in 0..1_500 {
        match random.u32(..100) {
            0 => {
                redis.cli(&["FLUSHALL"]);
                model.lose_all();
            }
            1 | 2 => {
                let name = name(&source(random.u32(..6)));
                redis.cli(&["DEL", &name]);
                model.lose(&name);
            }
            3 | 4 => {
                let name = name(&source(random.u32(..6)));
                redis.cli(&["DEL", &name]);
                let junk = ["x", "12 34 56", "12345678901234567890123456789012"];
                match random.usize(..4) {
                    3 => redis.cli(&["RPUSH", &name, "x"]),
                    junk_of => redis.cli(&["SET", &name, junk[junk_of]]),
                };
                model.lose(&name);
            }
            _ => {
                let member = random.u64(1..=3);
                let sent = sent.entry(member).or_default();
                let round = match random.u32(..4) {
                    0 if !sent.is_empty() => sent[random.usize(..sent.len())].clone(),
                    _ => {
                        let number = sent.len() as u64 + 1;
                        let mut items = Vec::new();
                        for source in 0..6 {
                            if random.bool() {
                                items.push((source, random.u64(..6) * random.u64(..30)));
                            }
                        }
                        let round = round(number, &items);
                        sent.push(round.clone());
                        round
                    }
                };
                let before = store.now();
                let exchange = store.store.exchange(FLEET, member, &round, of);
                let answer = store.runtime.block_on(exchange).unwrap();
                let at = (before, store.now());
                let name = |key: &SourceKey| (name(key), of(key));
                // An empty round is not sent.
                if !round.items.is_empty() {
                    let right = model.check(member, &round, name, at, &answer);
                    right.unwrap_or_else(|why| panic!("seed {seed}, step {step}: {why}"));
                }
                charged += answer.iter().filter(|record| record.spent > 0).count();
            }
        }
    }
    assert!(charged > 500, "only {charged} buckets were not full");
}
