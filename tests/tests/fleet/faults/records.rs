//! Invalid records in the store affect only their own source.

use std::{thread, time::Duration};

use limiter_tests::{eventually, fleet::source, number};

use super::{
    case::{CALM, Case, HOT},
    fleet,
};

/// A record in the format of the store: four doubles.
fn record([born, total, tat, ends]: [f64; 4]) -> String {
    let bytes = [born, total, tat, ends].map(f64::to_le_bytes).concat();
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// The records are garbage, of another type, or have hostile counts.
#[test]
fn hostile_records_affect_only_their_own_source() {
    let fleet = fleet!();
    let case = Case::new(&fleet);
    let stream = case.load();
    let keys = case.store.cli(&["KEYS", "limiter:*"]);
    let of = |source: &str| {
        let key = keys.lines().find(|key| key.contains(source));
        key.unwrap_or_else(|| panic!("{source} in {keys}"))
            .to_owned()
    };
    let hot = of(&source(HOT).to_string());
    for garbage in [
        "",
        "garbage",
        "1 2 3",
        &"x".repeat(32),
        &"y".repeat(100_000),
    ] {
        case.store.cli(&["SET", &hot, garbage]);
    }
    // One script, so that no member writes between the two commands.
    let list = "redis.call('DEL', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'garbage')";
    case.store.cli(&["EVAL", list, "1", &hot]);
    let members = keys.lines().find(|key| key.ends_with(":members")).unwrap();
    case.store.cli(&["SET", members, "garbage"]);
    for last in keys.lines().filter(|key| key.contains(":m:")) {
        case.store.cli(&["SET", last, "garbage"]);
    }
    case.recovered(0..3);
    case.bound_holds();
    // No member writes such numbers.
    let most = 9e15;
    let now = 1.7e15;
    for figures in [
        [now, most, most, now],
        [now, 1.0, 0.0, now],
        [now, most, 0.0, now],
        [1.0, most, 0.0, 1.0],
        [now, 1.0, f64::NAN, now],
        [now, f64::INFINITY, 0.0, now],
        [now, -5.0, -most, -1.0],
        [now, most, -most, most],
    ] {
        lua_set(&case, &hot, &record(figures));
        // Waits for several rounds, which read the record.
        thread::sleep(Duration::from_millis(250));
        let before = number(&case.fleet.check(0, source(CALM))["limits"][0]["passed_packets"]);
        eventually("the calm source passes", || {
            number(&case.fleet.check(0, source(CALM))["limits"][0]["passed_packets"]) > before
        });
    }
    for host in 0..3 {
        let says = case.says(host);
        assert!(says["error"].is_null(), "{says}");
        let tokens =
            case.fleet.check(host, source(HOT))["limits"][0]["retry_after_seconds"].clone();
        // The bound is two bursts and two staleness times, each of at most ten seconds.
        assert!(tokens.as_f64() < Some(21.0), "{tokens}");
    }
    let dropped = case.figures(source(CALM), "dropped");
    assert_eq!(dropped, [0; 3], "drops of the calm source");
    drop(stream);
}

/// Writes a value with bytes that no argument can contain.
fn lua_set(case: &Case<'_>, key: &str, escaped: &str) {
    let script = format!("return redis.call('SET', KEYS[1], \"{escaped}\")");
    case.store.cli(&["EVAL", &script, "1", key]);
}
