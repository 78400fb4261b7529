use std::{thread, time::Duration};

use limiter_fleet::store::{Beat, Error, MEMBERS};
use limiter_tests::{need_redis, redis::Redis};

use super::{Asked, FLEET};

const ALIVE: Duration = Duration::from_secs(60);
const KEY: &str = "limiter:{edge}:members";

impl Asked {
    fn beat(&mut self, member: u64, label: &str, alive: Duration) -> Beat {
        let beat = self.store.heartbeat(FLEET, member, label, alive);
        self.runtime.block_on(beat).unwrap()
    }
}

/// Members are counted, the one heard of least is the oldest, and who leaves is gone.
#[test]
fn who_is_there() {
    need_redis!();
    let redis = Redis::start();
    let mut store = Asked::of(&redis);
    let first = store.beat(1, "one/eth0", ALIVE);
    assert_eq!(
        (first.hosts, first.oldest, first.revision),
        (1, Duration::ZERO, 0)
    );
    thread::sleep(Duration::from_millis(20));
    let second = store.beat(2, "two/eth0", ALIVE);
    assert_eq!(second.hosts, 2);
    assert_eq!(second.oldest, second.now - first.now);
    // Not heard of for so long: not counted, and not forgotten.
    assert_eq!(
        store.beat(2, "two/eth0", Duration::from_millis(10)).hosts,
        1
    );
    let third = store.beat(2, "two/eth0", ALIVE);
    assert_eq!(third.hosts, 2);
    let members = store.store.members(FLEET, third.now);
    let members = store.runtime.block_on(members).unwrap();
    let seen: Vec<_> = members
        .iter()
        .map(|it| (it.member, it.label.as_str()))
        .collect();
    assert_eq!(seen, [(2, "two/eth0"), (1, "one/eth0")]);
    let age = third.now - first.now;
    assert!(
        members[1].age.abs_diff(age) < Duration::from_micros(10),
        "{members:?}"
    );
    let leave = store.store.leave(FLEET, 2, "two/eth0", &[]);
    store.runtime.block_on(leave).unwrap();
    assert_eq!(store.beat(1, "one/eth0", ALIVE).hosts, 1);
    let bad = store.store.heartbeat(FLEET, 1, "a\nb", ALIVE);
    assert!(matches!(store.runtime.block_on(bad), Err(Error::Label(_))));
}

/// What others put there costs no more than its room, and is not shown.
#[test]
fn what_others_put_there() {
    need_redis!();
    let redis = Redis::start();
    let mut store = Asked::of(&redis);
    // Another type under the name: members come again by themselves.
    redis.cli(&["SET", KEY, "junk"]);
    redis.cli(&["SET", "limiter:{edge}:revision", "junk"]);
    let beat = store.beat(1, "one/eth0", ALIVE);
    assert_eq!((beat.hosts, beat.revision), (1, 0));
    let fill = "for i=1,20000 do redis.call('ZADD',KEYS[1],ARGV[1]+i%7,'x'..i) end";
    let now = beat.now.as_micros().to_string();
    redis.cli(&["EVAL", fill, "1", KEY, &now]);
    // From the future, from long ago, and beyond all numbers.
    redis.cli(&[
        "ZADD", KEY, "9e15", "future", "1", "past", "+inf", "for ever", "-inf", "never",
    ]);
    redis.cli(&["ZADD", KEY, &now, "00000000000000aa \u{1b}[31mred"]);
    let beat = store.beat(1, "one/eth0", ALIVE);
    assert!(beat.hosts as usize <= MEMBERS, "{beat:?}");
    assert!(beat.oldest <= ALIVE, "{beat:?}");
    assert_eq!(redis.cli(&["ZCARD", KEY]), MEMBERS.to_string());
    for gone in ["future", "past", "for ever", "never"] {
        assert_eq!(redis.cli(&["ZSCORE", KEY, gone]), "", "{gone}");
    }
    let long = "redis.call('ZADD',KEYS[1],ARGV[1],string.rep('x',5000000))";
    redis.cli(&["EVAL", long, "1", KEY, &now]);
    let before = redis.sent();
    let members = store.store.members(FLEET, beat.now);
    let members = store.runtime.block_on(members).unwrap();
    let sent = redis.sent() - before;
    assert!(sent < 100_000, "{sent} bytes");
    assert_eq!(members.len(), 1, "{members:?}");
    assert_eq!(members[0].label, "one/eth0");
}
