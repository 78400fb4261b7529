use std::{thread, time::Duration};

use limiter_fleet::{conflicts::Held, store::LIMITS};
use limiter_tests::{need_redis, redis::Redis};

use super::{Asked, FLEET};

const ALIVE: Duration = Duration::from_secs(60);
const KEY: &str = "limiter:{edge}:limits";

pub fn held(name: &str, cost: u64) -> Held {
    Held {
        name: name.to_owned(),
        key: "/32,/64".to_owned(),
        cost,
        tau: 10 * cost,
        words: format!("cost {cost}, burst 10"),
    }
}

impl Asked {
    /// What all hold, in an order of its own.
    fn compare(&mut self, held: &[Held], gone: &[Held], alive: Duration) -> Vec<Held> {
        let compare = self.store.compare(FLEET, held, gone, alive);
        let mut all = self.runtime.block_on(compare).unwrap();
        all.sort_unstable();
        all
    }
}

/// Each learns of all that living ones hold, and of nothing that nobody holds any more.
#[test]
fn who_holds_what() {
    need_redis!();
    let redis = Redis::start();
    let mut store = Asked::of(&redis);
    let (first, second) = (held("all", 1), held("all", 2));
    let own = [first.clone(), held("dns", 7)];
    assert_eq!(store.compare(&own, &[], ALIVE), own);
    // The same once more is the same.
    assert_eq!(store.compare(&own, &[], ALIVE), own);
    let both = [first.clone(), second.clone(), held("dns", 7)];
    assert_eq!(store.compare(&both[1..2], &[], ALIVE), both);
    // Without limits, and to ask nevertheless.
    assert_eq!(store.compare(&[], &[], ALIVE), both);
    // What is changed is there no more at once.
    assert_eq!(store.compare(&both[..1], &both[1..2], ALIVE), own);
    thread::sleep(Duration::from_millis(20));
    let short = Duration::from_millis(10);
    assert_eq!(store.compare(&both[1..2], &[], short), both[1..2]);
    // It is forgotten, and not only left out.
    assert_eq!(redis.cli(&["ZCARD", KEY]), "1");
    let ends: u64 = redis.cli(&["PTTL", KEY]).parse().unwrap();
    assert!(ends > 0 && ends <= 86_400_000, "{ends}");
}

/// What others put there costs no more than its room, and is not shown.
#[test]
fn what_others_hold_in_jest() {
    need_redis!();
    let redis = Redis::start();
    let mut store = Asked::of(&redis);
    redis.cli(&["SET", KEY, "junk"]);
    let own = [held("all", 1)];
    assert_eq!(store.compare(&own, &[], ALIVE), own);
    let now = redis.cli(&["ZSCORE", KEY, "all /32,/64 1 10 cost 1, burst 10"]);
    let fill = "for i=1,20000 do redis.call('ZADD',KEYS[1],ARGV[1],'x'..i) end
        redis.call('ZADD',KEYS[1],ARGV[1],string.rep('x',5000000))";
    redis.cli(&["EVAL", fill, "1", KEY, &now]);
    redis.cli(&["ZADD", KEY, "9e15", "all /32,/64 9 9 future"]);
    redis.cli(&["ZADD", KEY, &now, "all /32,/64 9 9 \u{1b}[31mred"]);
    let before = redis.sent();
    assert_eq!(store.compare(&own, &[], ALIVE), own);
    let sent = redis.sent() - before;
    assert!(sent < 100_000, "{sent} bytes");
    assert_eq!(redis.cli(&["ZCARD", KEY]), LIMITS.to_string());
}
