//! The output of `top`: printed once, and the live view.

use std::{cmp::Reverse, time::Duration};

use limiter_config::DENY;

use crate::{
    observe::{Count, Interface, Limit, Sample, Top, check::BAN, source::TopSource},
    show::{
        table::table,
        units::{below, counted, grouped, seconds},
    },
};

/// The maximum number of limits in the live view. Sources matter more.
const LIMITS: usize = 8;

/// The busiest sources, and the drops of others.
pub fn once(top: &Top) -> String {
    let (name, verdicts) = (&top.interface, &top.verdicts);
    if top.sources.is_empty() && top.other_drops.is_empty() {
        return format!("{name}: no source is in the table\n");
    }
    let over = |interval| format!("; rates over {}", seconds(interval));
    let interval = top.interval_seconds.map(over).unwrap_or_default();
    let passed = grouped(verdicts.passed.packets);
    let dropped = grouped(verdicts.dropped.packets);
    let lines = delays(top) + &sources(top);
    format!("{name}: {passed} passed, {dropped} dropped{interval}\n{lines}\n")
}

/// The live view: sums, limits, sources.
pub fn live(sample: &Sample, interval: Duration) -> String {
    let (interface, top) = (&sample.interface, &sample.top);
    let mut text = format!("{} {}", interface.name, interface.mode);
    if interface.shadow {
        text += " SHADOW";
    }
    if let Some(until) = &interface.try_until {
        text += &format!(" ON TRIAL until {until}");
    }
    if let Some(log) = &interface.log {
        text += &format!(" LOGGING until {}", log.until);
    }
    let all = |sampled: &Interface| {
        let verdicts = sampled.verdicts;
        sums([verdicts.passed, verdicts.dropped, verdicts.would_drop])
    };
    let (passed, over) = all(interface);
    let before = sample.before.as_ref();
    let (passed_before, over_before) = before.map_or((passed, over), all);
    let rate = |now: u64, then| rate(per_second(top, now.saturating_sub(then)));
    text += &format!(
        "  {} of {}  every {}\npassed  {}/s, {} in all\n{:<7} {}/s, {} in all\n",
        grouped(interface.sources.tracked),
        counted(interface.sources.capacity, "source"),
        humantime::format_duration(interval),
        rate(passed, passed_before),
        grouped(passed),
        if interface.shadow { "over" } else { "dropped" },
        rate(over, over_before),
        grouped(over),
    );
    text += &delays(top);
    if !interface.limits.is_empty() {
        text += &(limits(sample) + "\n");
    }
    text + &sources(top)
}

/// A line about delayed packets; empty if no limit delays.
fn delays(top: &Top) -> String {
    let below = below(top.delayed_below_seconds);
    let line = |packets| format!("delayed {}/s{below}\n", rate(Some(packets)));
    top.delayed_packets_per_second.map(line).unwrap_or_default()
}

/// Packets that passed, and packets that were over the limits. In shadow, the latter are part of the former.
fn sums([passed, dropped, would_drop]: [Count; 3]) -> (u64, u64) {
    let over = dropped.packets.wrapping_add(would_drop.packets);
    (passed.packets, over)
}

/// Packets of a limit that passed, and packets that were over it, since the last sample.
fn since(limit: &Limit, before: &Option<Interface>) -> (u64, u64) {
    let all = |sampled: &Limit| sums([sampled.passed, sampled.dropped, sampled.would_drop]);
    let before = before.as_ref().and_then(|before| {
        before
            .limits
            .iter()
            .find(|earlier| earlier.name == limit.name)
    });
    let ((passed, over), then) = (all(limit), before.map_or(all(limit), all));
    // Counters restart if a limit takes another limit's slot.
    (passed.saturating_sub(then.0), over.saturating_sub(then.1))
}

/// The limits. If there are too many, those with the most drops.
fn limits(sample: &Sample) -> String {
    let mut limits: Vec<_> = sample.interface.limits.iter().collect();
    if limits.len() > LIMITS {
        limits.sort_by_key(|limit| Reverse(since(limit, &sample.before).1));
        limits.truncate(LIMITS);
    }
    let rows = limits.into_iter().map(|limit| {
        let (passed, over) = since(limit, &sample.before);
        [
            limit.name.clone(),
            limit.rate_in_force(),
            rate(per_second(&sample.top, passed)),
            rate(per_second(&sample.top, over)),
            grouped(limit.passed.packets),
            grouped(limit.dropped.packets),
            grouped(limit.would_drop.packets),
        ]
    });
    let columns = "LIMIT|RATE|PASS/s|OVER/s|PASSED|DROPPED|WOULD DROP";
    table(columns, 2, rows)
}

/// The sources, and drops of others.
fn sources(top: &Top) -> String {
    let columns = "SOURCE|LIMIT|PASS/s|DROP/s|PASSED|DROPPED|WOULD DROP|TOKENS";
    let sources = top.sources.iter().map(|source| {
        [
            source.source.clone(),
            source.limit.clone(),
            rate(source.passed_packets_per_second),
            drop_rate(source),
            grouped(source.passed_packets),
            grouped(source.dropped_packets),
            grouped(source.would_drop_packets),
            match source.held_seconds {
                Some(time) => format!("held {}", seconds(time)),
                None => format!("{:.1}", source.tokens),
            },
        ]
    });
    let others = top.other_drops.iter().map(|drops| {
        let (source, limit) = match drops.reason.as_str() {
            "limit" => ("other sources", "any"),
            DENY => ("denied sources", "deny list"),
            BAN => ("banned sources", "ban"),
            "new_source" => ("new sources", "new source"),
            "answered" => ("answered SYNs", "new source"),
            reason => (reason, reason),
        };
        let since = rate(drops.dropped_packets_per_second);
        let dropped = grouped(drops.dropped_packets);
        // They have no bucket.
        [source, limit, "-", &since, "-", &dropped, "-", "-"].map(str::to_owned)
    });
    table(columns, 2, sources.chain(others))
}

/// Packets over the limit per second; in parentheses if shadow let them pass.
fn drop_rate(source: &TopSource) -> String {
    match source.listed.as_deref() {
        // The drops are counted for the prefix.
        Some(DENY) => "denied".to_owned(),
        Some(BAN) => "banned".to_owned(),
        _ if !source.shadow => rate(source.dropped_packets_per_second),
        _ => format!("({})", rate(source.would_drop_packets_per_second)),
    }
}

fn per_second(top: &Top, count: u64) -> Option<f64> {
    top.interval_seconds.map(|seconds| count as f64 / seconds)
}

/// Packets per second: `4.9`, `1,234`; `-` if there is no earlier sample.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shown, not computed with; never negative"
)]
fn rate(per_second: Option<f64>) -> String {
    match per_second {
        None => "-".to_owned(),
        Some(rate) if rate > 0.0 && rate < 9.95 => format!("{rate:.1}"),
        Some(rate) => grouped(rate.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::observe::source::TopDrops;

    fn sample(dropped: u64) -> Sample {
        let count = |packets: u64| json!({"packets": packets, "bytes": 0});
        let limit = json!({
            "name": "default", "rate": "5/s", "burst": "10", "key": "/32,/64", "algorithm": "token-bucket",
            "scale": 0.35, "shadow": false, "passed": count(132), "dropped": count(dropped),
            "would_drop": count(0),
        });
        let interface = json!({
            "name": "eth0", "ifindex": 2, "mode": "native", "program_id": 17, "version": "0.1.0",
            "attached_at": "2026-11-21T06:00:00Z", "shadow": false, "malformed": "drop", "frags": true,
            "exempt": [], "limits": [limit], "lists": [], "drops": {}, "passes": {}, "events_lost": 0,
            "loopback": false, "tap": false, "chained": false, "bans": { "capacity": 0, "by_origin": {} },
            "delays": { "packets": 0, "seconds": 0.0, "below": [] },
            "seen": count(132 + dropped), "passed": count(132), "dropped": count(dropped),
            "would_drop": count(0), "sources": {
                "tracked": 2, "entries": 2, "capacity": 65_536, "memory_bytes": 0, "source_bytes": 32,
                "added": 2, "removed": 0, "second_chances": 0, "came_again": 0, "proven": 0,
            },
        });
        let source = |source: &str, over_since, drops, listed: Option<&str>| {
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
                limit: "default".to_owned(),
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
        };
        let top = Top {
            interface: "eth0".to_owned(),
            interval_seconds: Some(2.0),
            sources: vec![
                source("192.0.2.66", 4_000, true, None),
                source("192.0.2.7", 20, false, None),
                source("192.0.2.9", 20, true, Some(DENY)),
            ],
            other_drops: vec![TopDrops {
                reason: "new_source".to_owned(),
                dropped_packets: 7,
                dropped_packets_per_second: Some(0.0),
            }],
            ..Top::default()
        };
        let interface = serde_json::from_value(interface).unwrap();
        Sample {
            interface,
            before: None,
            top,
        }
    }

    #[test]
    fn live_view_shows_sums_limits_and_sources() {
        let sample = Sample {
            before: Some(sample(1_000).interface),
            ..sample(5_200)
        };
        let text = live(&sample, Duration::from_secs(1));
        let lines: Vec<Vec<_>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let expected = "\
eth0 native 2 of 65,536 sources every 1s
passed 0/s, 132 in all
dropped 2,100/s, 5,200 in all
LIMIT RATE PASS/s OVER/s PASSED DROPPED WOULD DROP
default 35% of 5/s 0 2,100 132 5,200 0
SOURCE LIMIT PASS/s DROP/s PASSED DROPPED WOULD DROP TOKENS
192.0.2.66 default 5.0 2,000 100 40,000 0 0.5
192.0.2.7 default 5.0 (10) 100 0 40,000 0.5
192.0.2.9 default 5.0 denied 100 40,000 0 0.5
new sources new source - 0 - 7 - -";
        let lines: Vec<_> = lines.iter().map(|line| line.join(" ")).collect();
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn delays_have_a_line_if_limits_delay() {
        let mut sample = sample(0);
        assert!(!once(&sample.top).contains("delayed"));
        sample.top.delayed_packets_per_second = Some(100.0);
        sample.top.delayed_below_seconds = Some(0.016_777_216);
        let line = "\ndelayed 100/s, 99 % below 16.8 ms\n";
        assert!(once(&sample.top).contains(line));
        assert!(live(&sample, Duration::from_secs(2)).contains(line));
    }
}
