//! A sample for tests.

use std::collections::BTreeMap;

use limiter_config::DENY;
use serde_json::json;

use crate::observe::{
    Sample, Top,
    source::{TopDrops, TopSource},
};

/// A sample of an interface with two limits, of which `dropped` packets were over the first.
pub fn sample(dropped: u64) -> Sample {
    let count = |packets: u64| json!({"packets": packets, "bytes": 100 * packets});
    let limit = |name: &str, rate: &str, scale: f64, passed: u64, dropped: u64| {
        json!({
            "name": name, "rate": rate, "burst": "10", "key": "/32,/64", "algorithm": "token-bucket",
            "scale": scale, "shadow": false, "passed": count(passed), "dropped": count(dropped),
            "would_drop": count(0),
        })
    };
    let interface = json!({
        "name": "eth0", "ifindex": 2, "mode": "native", "program_id": 17, "version": "0.1.0",
        "attached_at": "2026-11-21T06:00:00Z", "shadow": false, "malformed": "drop", "frags": true,
        "exempt": [], "limits": [limit("source", "5/s", 0.35, 132, dropped), limit("ssh", "5/m", 1.0, 0, 0)],
        "lists": [], "drops": {"limit": count(dropped)}, "passes": {}, "events_lost": 0,
        "loopback": false, "tap": false, "chained": false, "bans": { "capacity": 0, "by_origin": {} },
        "delays": { "packets": 0, "seconds": 0.0, "below": [] },
        "seen": count(132 + dropped), "passed": count(132), "dropped": count(dropped),
        "would_drop": count(0), "sources": {
            "tracked": 3, "entries": 3, "capacity": 65_536, "memory_bytes": 0, "source_bytes": 32,
            "added": 3, "removed": 0, "second_chances": 0, "came_again": 0, "proven": 0,
        },
    });
    let sources = vec![
        source("192.0.2.66", 4_000, true, None),
        source("192.0.2.7", 20, false, None),
        source("192.0.2.9", 20, true, Some(DENY)),
    ];
    let top = Top {
        interface: "eth0".to_owned(),
        interval_seconds: Some(2.0),
        sources,
        other_drops: vec![TopDrops {
            reason: "new_source".to_owned(),
            dropped_packets: 7,
            dropped_packets_per_second: Some(0.0),
        }],
        ..Top::default()
    };
    Sample {
        interface: serde_json::from_value(interface).unwrap(),
        before: None,
        over: BTreeMap::from([("source".to_owned(), 4_020), ("ssh".to_owned(), 0)]),
        matching: top.sources.len() as u64,
        first: 0,
        chosen: 0,
        top,
    }
}

/// A source with packets over its limit since the last scan. `drops`: they are dropped.
pub fn source(source: &str, over_since: u32, drops: bool, listed: Option<&str>) -> TopSource {
    let packets = |drops| if drops { 40_000 } else { 0 };
    let rate = |drops| {
        Some(if drops {
            f64::from(over_since) / 2.0
        } else {
            0.0
        })
    };
    TopSource {
        source: source.to_owned(),
        limit: "source".to_owned(),
        listed: listed.map(str::to_owned),
        tokens: 0.5,
        passed_packets: 100,
        dropped_packets: packets(drops),
        would_drop_packets: packets(!drops),
        passed_packets_per_second: Some(5.0),
        dropped_packets_per_second: rate(drops),
        would_drop_packets_per_second: rate(!drops),
        shadow: !drops,
        ..TopSource::default()
    }
}

/// Two samples' difference: a spoofed flood, a flooder, honest sources, and limits of which one is idle. `sources` of
/// them are in the table.
pub fn flood(sources: u32) -> Sample {
    let mut sample = sample(37_308);
    let count = |packets: u64| json!({"packets": packets, "bytes": 64 * packets});
    let interface = &mut sample.interface;
    interface.try_until = Some("2026-11-21T06:05:00Z".to_owned());
    interface.limits[0].scale = 1.0;
    interface.drops = from(json!({
        "new_source": count(4_612_308), "limit": count(37_308), "deny": count(38), "ban": count(1_200)
    }));
    interface.verdicts.dropped = from(count(4_650_854));
    interface.sources.entries = 48_212;
    let mut before = interface.clone();
    let then =
        |count: u64, since: u64| json!({"packets": count - since, "bytes": 64 * (count - since)});
    before.drops = from(json!({
        "new_source": then(4_612_308, 84_000), "limit": then(37_308, 4_020), "deny": count(38),
        "ban": then(1_200, 60)
    }));
    before.verdicts.dropped = from(then(4_650_854, 88_080));
    before.verdicts.passed = from(json!({"packets": 32, "bytes": 3_200}));
    before.limits[0].passed = from(count(32));
    before.sources.added = 1;
    sample.before = Some(before);
    let more = (0..sources.saturating_sub(3)).map(|number| {
        let [.., third, last] = number.to_be_bytes();
        let text = match number % 5 {
            4 => format!("2001:db8:{number:x}::/64"),
            _ => format!("198.51.{}.{last}", 100 + third),
        };
        TopSource {
            dropped_packets: 900 - u64::from(number.min(900)),
            tokens: f64::from(number % 10),
            passed_packets: 192_000,
            ..source(&text, 0, true, None)
        }
    });
    sample.top.sources[1].shadow = false;
    sample.top.sources[1].would_drop_packets = 0;
    sample.top.sources.extend(more);
    sample.matching = sample.top.sources.len() as u64;
    sample
}

/// A value from JSON.
pub fn from<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}
