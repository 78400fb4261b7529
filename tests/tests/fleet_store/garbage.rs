//! Garbage under the keys of Redis is ignored, and its amount is bounded.

use limiter_fleet::store::{Error, LIMITS, MEMBERS, PREFIXES};

use super::{
    Client, SLOW,
    members::{ALIVE, held},
    round, store,
    stored_lists::add,
};

const LIST: &str = "limiter:{edge}:list:deny";
const RECORD: &str = "limiter:{edge}:lists";
const KEY: &str = "limiter:{edge}:members";
const LIMITS_KEY: &str = "limiter:{edge}:limits";

/// The source's next packets make a new record.
#[test]
fn garbled_record_counts_as_none() {
    let (redis, mut store) = store!();
    let key = "limiter:{edge}:s:http:10.0.0.1";
    let pack = |numbers: &str| {
        let script = format!("redis.call('SET',KEYS[1],struct.pack('<dddd',{numbers}))");
        redis.cli(&["EVAL", &script, "1", key]);
    };
    let mut number = 0;
    let mut starts_anew = |store: &mut Client, situation: &str| {
        assert_eq!(store.totals(number + 1, &[(1, 0)]), [0], "{situation}");
        number += 2;
        let before = redis.micros();
        let record = store.exchange(1, &round(number, &[(1, 3)]))[0];
        assert_eq!(record.total, 3, "{situation}");
        assert!(record.born >= before, "{situation}");
    };
    let malformed = "0,1,1,1 -5,1,1,1 5.5,1,1,1 1e300,1,1,1 1/0,1,1,1 0/0,1,1,1 5,-1,1,1 5,1.5,1,1 \
        5,1e300,1,1 5,0/0,1,1 5,1,0/0,1 5,1,1/0,1 5,1,-1/0,1 5,1,0.5,1";
    for bad in malformed.split(' ') {
        pack(bad);
        starts_anew(&mut store, bad);
    }
    for bad in [
        &["SET", key, "junk"][..],
        &["SET", key, ""],
        &["RPUSH", key, "x"],
        &["HSET", key, "x", "y"],
    ] {
        redis.cli(&["DEL", key]);
        redis.cli(bad);
        starts_anew(&mut store, bad[0]);
    }
    // A valid record with an extreme debt affects this source, by at most the cap.
    pack("redis.call('TIME')[1]*1000000,7,9e15,0/0");
    let hostile = store.exchange(1, &round(100, &[(1, 1)]))[0];
    assert_eq!((hostile.total, hostile.spent), (8, SLOW.1));
    // The count is at its maximum.
    pack("5,9007199254740991,1,1");
    assert_eq!(store.totals(101, &[(1, 1)]), [1]);
}

#[test]
fn rounds_continue_after_a_garbled_round_number() {
    let (redis, mut store) = store!();
    let key = "limiter:{edge}:m:0000000000000001:0";
    for (number, bad) in (1..).zip([
        &["SET", key, "junk"],
        &["SET", key, "-1"],
        &["SET", key, "1e9"],
        &["SET", key, "nan"],
        &["SET", key, "0x99"],
        &["SET", key, "99999999999999999999"],
        &["RPUSH", key, "x"],
    ]) {
        redis.cli(&["DEL", key]);
        redis.cli(bad);
        for _ in 0..2 {
            assert_eq!(store.totals(number, &[(1, 1)]), [number], "{bad:?}");
        }
    }
}

#[test]
fn garbage_under_the_keys_is_bounded_and_not_shown() {
    let (redis, mut store) = store!();
    // If a key has another type, members register again.
    for key in [KEY, LIMITS_KEY, "limiter:{edge}:lists"] {
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
        let ends: u64 = redis.cli(&["PTTL", key]).parse().unwrap();
        assert!(ends > 0 && ends <= 86_400_000, "{ends}");
        for gone in ["future", "past", "for ever", "never"] {
            assert_eq!(redis.cli(&["ZSCORE", key, gone]), "", "{gone}");
        }
    }
}

#[test]
fn malformed_list_entries_are_skipped_and_length_is_bounded() {
    let (redis, mut store) = store!();
    let edit = add(&["192.0.2.0/24"], None);
    store.try_edit(&edit).unwrap();
    let bad = ["junk", "junk", "10.0.0.1/8", "{}", "10.0.0.0/8", "[]"];
    redis.cli(&[&["HSET", LIST], &bad[..]].concat());
    let large = "redis.call('HSET',KEYS[1],'10.0.0.0/9',string.rep('x',5000000))";
    redis.cli(&["EVAL", large, "1", LIST]);
    let before = redis.sent();
    assert_eq!(store.deny().len(), 1);
    // Invalid fields stay in the store.
    let sent = redis.sent() - before;
    assert!(sent < 100_000, "{sent} bytes");
    let fill = format!("for i=5,{PREFIXES} do redis.call('HSET',KEYS[1],i,'x') end");
    redis.cli(&["EVAL", &fill, "1", LIST]);
    let length = || redis.cli(&["HLEN", LIST]);
    assert_eq!(length(), (PREFIXES + 1).to_string());
    let is_full = |error: &Error| matches!(error, Error::ListFull(list, _) if list == "deny");
    let mut read = store.lists(&["deny", "other"]).lists;
    assert!(is_full(read[0].as_ref().unwrap_err()));
    assert!(read.remove(1).is_ok());
    assert!(is_full(&store.try_edit(&edit).unwrap_err()));
    // There is room for one prefix. An existing prefix needs no room.
    redis.cli(&["HDEL", LIST, "5"]);
    let other = add(&["203.0.113.0/24"], None);
    assert!(is_full(&store.try_edit(&other).unwrap_err()));
    assert_eq!(store.try_edit(&edit).unwrap(), 1);
    assert_eq!(length(), PREFIXES.to_string());
    redis.cli(&["DEL", LIST]);
    redis.cli(&["SET", LIST, "junk"]);
    let error = store.try_edit(&edit).unwrap_err();
    assert!(matches!(error, Error::NotAList(..)), "{error}");
    assert!(error.to_string().contains(LIST), "{error}");
    let read = store.lists(&["deny"]).lists;
    assert!(matches!(read[0], Err(Error::NotAList(..))), "{read:?}");
}

/// A server that evicts any key takes a list, and not the record of its length.
#[test]
fn evicted_list_is_lost_and_not_empty() {
    let (redis, mut store) = store!();
    let edit = add(&["192.0.2.0/24", "198.51.100.0/24"], None);
    store.try_edit(&edit).unwrap();
    assert!(store.store.warning().is_none());
    let known = store.lists(&["deny", "gold"]);
    assert!(known.short.is_empty() && !store.beat(1, &[], ALIVE).is_short);
    redis.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    let most = redis.size() + (2 << 20);
    redis.cli(&["CONFIG", "SET", "maxmemory", &most.to_string()]);
    let fields = ["revision", "born", "n:deny"].map(|field| redis.cli(&["HGET", RECORD, field]));
    let fill = "for i=1,2000 do redis.call('SET','other'..i,string.rep('x',4000)) end";
    while redis.cli(&["EXISTS", LIST]) == "1" {
        redis.cli(&["EVAL", fill, "0"]);
    }
    let [revision, born, length] = &fields;
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    redis.cli(&[
        "HSET", RECORD, "revision", revision, "born", born, "n:deny", length,
    ]);
    assert!(store.beat(1, &[], ALIVE).is_short);
    let read = store.lists(&["deny", "gold"]);
    assert_eq!((read.revision, read.born), (known.revision, known.born));
    assert_eq!(read.short, ["deny".to_owned()].into());
    let again = store.store.edit("edge", "deny", "host", read.born, &edit);
    let error = store.runtime.block_on(again).unwrap_err();
    assert!(matches!(error, Error::Lost), "{error}");
    let warning = Client::of(&redis).store.warning().unwrap();
    assert!(
        warning.contains("maxmemory-policy allkeys-random"),
        "{warning}"
    );
    // An agent that knows nothing makes the list anew.
    assert_eq!(store.try_edit(&edit).unwrap(), 2);
    assert!(!store.beat(1, &[], ALIVE).is_short);
}

/// The answer to one member has no more bytes if many members are charged.
#[test]
fn member_traffic_does_not_grow_with_the_fleet() {
    let (redis, mut store) = store!();
    let items: Vec<_> = (0..1_000).map(|source| (source, 3)).collect();
    let mut sent = |member| {
        let before = redis.sent();
        store.exchange(member, &round(1, &items));
        redis.sent() - before
    };
    // The first member sends the script.
    let sizes: Vec<_> = (1..=20).map(&mut sent).collect();
    assert!(5 * sizes[19] < 6 * sizes[1], "{sizes:?}");
}
