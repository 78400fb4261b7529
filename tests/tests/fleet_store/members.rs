//! The store counts living members and compares their limits, whatever else is under its keys.

use std::{thread, time::Duration};

use limiter_fleet::{
    conflicts::Held,
    store::{Beat, LIMITS, MEMBERS},
};

use super::{Asked, FLEET, store};

const ALIVE: Duration = Duration::from_secs(60);
/// Shorter than the pauses of the tests.
const SHORT: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(20);
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
    pub fn beat(&mut self, member: u64, held: &[Held], alive: Duration) -> Beat {
        let label = format!("host-{member}/eth0");
        let beat = self.store.heartbeat(FLEET, member, &label, held, alive);
        self.runtime.block_on(beat).unwrap()
    }

    /// Limits of all members, sorted.
    fn compare(&mut self, held: &[Held], alive: Duration) -> Vec<Held> {
        let mut all = self.beat(1, held, alive).held;
        all.sort_unstable();
        all
    }
}

#[test]
fn members_are_counted_until_they_fall_silent() {
    let (redis, mut store) = store!();
    let first = store.beat(1, &[], ALIVE);
    assert_eq!((first.hosts, first.revision), (1, 0));
    assert_eq!(first.oldest, Duration::ZERO);
    thread::sleep(PAUSE);
    let second = store.beat(2, &[], ALIVE);
    assert_eq!(second.hosts, 2);
    assert!(second.oldest >= PAUSE, "{second:?}");
    // A silent member is not counted, but not forgotten.
    assert_eq!(store.beat(2, &[], SHORT).hosts, 1);
    assert_eq!(store.beat(2, &[], ALIVE).hosts, 2);
    let members = redis.cli(&["ZRANGE", KEY, "0", "-1"]);
    let expected = "0000000000000001 host-1/eth0\n0000000000000002 host-2/eth0";
    assert_eq!(members, expected);
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
    thread::sleep(PAUSE);
    assert_eq!(store.compare(&both[1..2], SHORT), both[1..2]);
    // The limits are deleted, not just hidden.
    assert_eq!(redis.cli(&["ZCARD", LIMITS_KEY]), "1");
    let ends: u64 = redis.cli(&["PTTL", LIMITS_KEY]).parse().unwrap();
    assert!(ends > 0 && ends <= 86_400_000, "{ends}");
}

#[test]
fn garbage_under_the_keys_is_bounded_and_not_shown() {
    let (redis, mut store) = store!();
    // If a key has another type, members register again.
    for key in [KEY, LIMITS_KEY, "limiter:{edge}:revision"] {
        redis.cli(&["SET", key, "junk"]);
    }
    let own = [held("all", 1)];
    let beat = store.beat(1, &own, ALIVE);
    assert_eq!(
        (beat.hosts, beat.revision, &beat.held[..]),
        (1, 0, &own[..])
    );
    let fill = "for i=1,20000 do redis.call('ZADD',KEYS[1],ARGV[1]+i%7,'x'..i) end
        redis.call('ZADD',KEYS[1],ARGV[1],string.rep('x',5000000))";
    let now = redis.micros().to_string();
    let red = r#"{"name":"all","quota":"/32,/64 9 9","words":"\u001b[31mred"}"#;
    for key in [KEY, LIMITS_KEY] {
        redis.cli(&["EVAL", fill, "1", key, &now]);
        // The times are in the future, long ago, and out of range.
        redis.cli(&[
            "ZADD", key, "9e15", "future", "1", "past", "+inf", "for ever", "-inf", "never",
        ]);
        redis.cli(&["ZADD", key, &now, red]);
    }
    let before = redis.sent();
    let beat = store.beat(1, &own, ALIVE);
    let sent = redis.sent() - before;
    assert!(sent < 100_000, "{sent} bytes");
    assert!(beat.hosts as usize <= MEMBERS, "{beat:?}");
    assert!(beat.oldest <= ALIVE && beat.held == own, "{beat:?}");
    for (key, most) in [(KEY, MEMBERS), (LIMITS_KEY, LIMITS)] {
        assert_eq!(redis.cli(&["ZCARD", key]), most.to_string());
        for gone in ["future", "past", "for ever", "never"] {
            assert_eq!(redis.cli(&["ZSCORE", key, gone]), "", "{gone}");
        }
    }
}
