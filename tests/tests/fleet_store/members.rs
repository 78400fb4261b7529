//! The store counts living members and compares their limits, whatever else is under its keys.

use std::{thread, time::Duration};

use limiter_fleet::{
    conflicts::Held,
    store::{Beat, Error, LIMITS, MEMBERS},
};

use super::{Asked, FLEET, store};

const ALIVE: Duration = Duration::from_secs(60);
const KEY: &str = "limiter:{edge}:members";
const LIMITS_KEY: &str = "limiter:{edge}:limits";

pub fn held(name: &str, cost: u64) -> Held {
    Held {
        name: name.to_owned(),
        quota: format!("/32,/64 {cost} {}", 10 * cost),
        words: format!("cost {cost}, burst 10"),
    }
}

impl Asked {
    fn beat(&mut self, member: u64, label: &str, alive: Duration) -> Beat {
        self.say(member, label, &[], alive)
    }

    fn say(&mut self, member: u64, label: &str, held: &[Held], alive: Duration) -> Beat {
        let beat = self.store.heartbeat(FLEET, member, label, held, alive);
        self.runtime.block_on(beat).unwrap()
    }

    /// Limits of all members, sorted.
    fn compare(&mut self, held: &[Held], alive: Duration) -> Vec<Held> {
        let mut all = self.say(1, "one/eth0", held, alive).held;
        all.sort_unstable();
        all
    }
}

#[test]
fn members_are_counted_until_they_fall_silent() {
    let (redis, mut store) = store!();
    let first = store.beat(1, "one/eth0", ALIVE);
    assert_eq!(
        (first.hosts, first.oldest, first.revision),
        (1, Duration::ZERO, 0)
    );
    thread::sleep(Duration::from_millis(20));
    let second = store.beat(2, "two/eth0", ALIVE);
    assert_eq!(second.hosts, 2);
    assert_eq!(second.oldest, second.now - first.now);
    // A silent member is not counted, but not forgotten.
    assert_eq!(
        store.beat(2, "two/eth0", Duration::from_millis(10)).hosts,
        1
    );
    let third = store.beat(2, "two/eth0", ALIVE);
    assert_eq!(third.hosts, 2);
    let members = redis.cli(&["ZRANGE", KEY, "0", "-1"]);
    assert_eq!(
        members,
        "0000000000000001 one/eth0\n0000000000000002 two/eth0"
    );
    let bad = store.store.heartbeat(FLEET, 1, "a\nb", &[], ALIVE);
    assert!(matches!(store.runtime.block_on(bad), Err(Error::Label(_))));
}

#[test]
fn garbage_under_the_members_key_is_bounded_and_not_shown() {
    let (redis, mut store) = store!();
    // If the key has another type, members register again.
    redis.cli(&["SET", KEY, "junk"]);
    redis.cli(&["SET", "limiter:{edge}:revision", "junk"]);
    let beat = store.beat(1, "one/eth0", ALIVE);
    assert_eq!((beat.hosts, beat.revision), (1, 0));
    let fill = "for i=1,20000 do redis.call('ZADD',KEYS[1],ARGV[1]+i%7,'x'..i) end";
    let now = beat.now.as_micros().to_string();
    redis.cli(&["EVAL", fill, "1", KEY, &now]);
    // The times are in the future, long ago, and out of range.
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
}

/// Outdated limits are not included.
#[test]
fn members_learn_the_limits_of_all_living_members() {
    let (redis, mut store) = store!();
    let both = [held("all", 1), held("all", 2), held("dns", 7)];
    let own = [both[0].clone(), both[2].clone()];
    // Repeating it changes nothing.
    assert_eq!(store.compare(&own, ALIVE), own);
    assert_eq!(store.compare(&own, ALIVE), own);
    assert_eq!(store.compare(&both[1..2], ALIVE), both);
    // A member without limits may ask too.
    assert_eq!(store.compare(&[], ALIVE), both);
    thread::sleep(Duration::from_millis(20));
    let short = Duration::from_millis(10);
    assert_eq!(store.compare(&both[1..2], short), both[1..2]);
    // The limits are deleted, not just hidden.
    assert_eq!(redis.cli(&["ZCARD", LIMITS_KEY]), "1");
    let ends: u64 = redis.cli(&["PTTL", LIMITS_KEY]).parse().unwrap();
    assert!(ends > 0 && ends <= 86_400_000, "{ends}");
}

#[test]
fn garbage_under_the_limits_key_is_bounded_and_not_shown() {
    let (redis, mut store) = store!();
    redis.cli(&["SET", LIMITS_KEY, "junk"]);
    let own = [held("all", 1)];
    assert_eq!(store.compare(&own, ALIVE), own);
    let now = redis.cli(&["ZSCORE", LIMITS_KEY, "all /32,/64 1 10 cost 1, burst 10"]);
    let fill = "for i=1,20000 do redis.call('ZADD',KEYS[1],ARGV[1],'x'..i) end
        redis.call('ZADD',KEYS[1],ARGV[1],string.rep('x',5000000))";
    redis.cli(&["EVAL", fill, "1", LIMITS_KEY, &now]);
    redis.cli(&["ZADD", LIMITS_KEY, "9e15", "all /32,/64 9 9 future"]);
    redis.cli(&["ZADD", LIMITS_KEY, &now, "all /32,/64 9 9 \u{1b}[31mred"]);
    let before = redis.sent();
    assert_eq!(store.compare(&own, ALIVE), own);
    let sent = redis.sent() - before;
    assert!(sent < 100_000, "{sent} bytes");
    assert_eq!(redis.cli(&["ZCARD", LIMITS_KEY]), LIMITS.to_string());
}
