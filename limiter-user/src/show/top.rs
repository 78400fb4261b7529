//! The output of `top`: printed once, and the live view.

use std::{cmp::Reverse, time::Duration};

use crate::{
    config::DENY,
    observe::{Count, Delays, Interface, Limit, Row, Sample, check::BAN, live::per_second},
    show::{
        table::table,
        units::{below, counted, grouped, seconds},
    },
};

/// The maximum number of limits in the live view. Sources matter more.
const LIMITS: usize = 8;

/// The busiest sources, and the drops of others.
pub fn once(sample: &Sample) -> String {
    let Interface { name, verdicts, .. } = &sample.interface;
    if sample.rows.is_empty() {
        return format!("{name}: no source is in the table\n");
    }
    let interval = sample.elapsed.map_or_else(String::new, |interval| {
        format!("; rates over {}", seconds(interval.as_secs_f64()))
    });
    format!(
        "{name}: {} passed, {} dropped{interval}\n{}\n",
        grouped(verdicts.passed.packets),
        grouped(verdicts.dropped.packets),
        delays(sample) + &sources(sample)
    )
}

/// The live view: sums, limits, sources. `before`: the interface at the last sample.
pub fn live(sample: &Sample, before: Option<&Interface>, interval: Duration) -> String {
    let of = &sample.interface;
    let mut text = format!("{} {}", of.name, of.mode);
    if of.shadow {
        text += " SHADOW";
    }
    if let Some(until) = &of.try_until {
        text += &format!(" ON TRIAL until {until}");
    }
    let all = |of: &Interface| {
        let of = of.verdicts;
        sums([of.passed, of.dropped, of.would_drop])
    };
    let (passed, over) = all(of);
    let (passed_before, over_before) = before.map_or((passed, over), all);
    let rate = |now: u64, then| rate(sample, now.saturating_sub(then));
    text += &format!(
        "  {} of {}  every {}\npassed  {}/s, {} in all\n{:<7} {}/s, {} in all\n",
        grouped(of.sources.tracked),
        counted(of.sources.capacity, "source"),
        humantime::format_duration(interval),
        rate(passed, passed_before),
        grouped(passed),
        if of.shadow { "over" } else { "dropped" },
        rate(over, over_before),
        grouped(over),
    );
    text += &delays(sample);
    if !of.limits.is_empty() {
        text += &(limits(sample, before) + "\n");
    }
    text + &sources(sample)
}

/// A line about delayed packets; empty if no limit delays.
fn delays(sample: &Sample) -> String {
    let line = |of: &Delays| format!("delayed {}/s{}\n", rate(sample, of.packets), below(of));
    sample.delays.as_ref().map(line).unwrap_or_default()
}

/// Packets that passed, and packets that were over the limits. In shadow, the latter are part of the former.
fn sums([passed, dropped, would_drop]: [Count; 3]) -> (u64, u64) {
    let over = dropped.packets.wrapping_add(would_drop.packets);
    (passed.packets, over)
}

/// Packets of a limit that passed, and packets that were over it, since the last sample.
fn since(limit: &Limit, before: Option<&Interface>) -> (u64, u64) {
    let all = |of: &Limit| sums([of.passed, of.dropped, of.would_drop]);
    let before = before.and_then(|before| before.limits.iter().find(|of| of.name == limit.name));
    let ((passed, over), then) = (all(limit), before.map_or(all(limit), all));
    // Counters restart if a limit takes another limit's slot.
    (passed.saturating_sub(then.0), over.saturating_sub(then.1))
}

/// The limits. If there are too many, those with the most drops.
fn limits(sample: &Sample, before: Option<&Interface>) -> String {
    let mut limits: Vec<_> = sample.interface.limits.iter().collect();
    if limits.len() > LIMITS {
        limits.sort_by_key(|limit| Reverse(since(limit, before).1));
        limits.truncate(LIMITS);
    }
    let rows = limits.into_iter().map(|limit| {
        let (passed, over) = since(limit, before);
        [
            limit.name.clone(),
            limit.rate_in_force(),
            rate(sample, passed),
            rate(sample, over),
            grouped(limit.passed.packets),
            grouped(limit.dropped.packets),
            grouped(limit.would_drop.packets),
        ]
    });
    let columns = "LIMIT|RATE|PASS/s|OVER/s|PASSED|DROPPED|WOULD DROP";
    table(columns, 2, rows)
}

/// The sources, and drops of others.
fn sources(sample: &Sample) -> String {
    let columns = "SOURCE|LIMIT|PASS/s|DROP/s|PASSED|DROPPED|WOULD DROP|TOKENS";
    let rows = sample.rows.iter().map(|row| {
        let of = &row.activity;
        let (dropped, would_drop) = of.split(of.over);
        // Other rows have no bucket.
        let of_source = |text: String| match row.reason {
            None => text,
            Some(_) => "-".to_owned(),
        };
        [
            row.source.clone(),
            row.limit.clone(),
            of_source(rate(sample, of.passed_since)),
            drop_rate(row, sample),
            of_source(grouped(of.passed)),
            grouped(dropped),
            of_source(grouped(would_drop)),
            of_source(match row.held_seconds {
                Some(time) => format!("held {}", seconds(time)),
                None => format!("{:.1}", row.tokens),
            }),
        ]
    });
    table(columns, 2, rows)
}

/// Packets over the limit per second; in parentheses if shadow let them pass.
fn drop_rate(row: &Row, sample: &Sample) -> String {
    let rate = rate(sample, row.activity.over_since);
    match row {
        // The drops are counted for the prefix.
        row if row.listed == Some(DENY) && row.reason.is_none() => "denied".to_owned(),
        row if row.listed == Some(BAN) && row.reason.is_none() => "banned".to_owned(),
        row if row.activity.drops => rate,
        _ => format!("({rate})"),
    }
}

/// Packets per second: `4.9`, `1,234`; `-` if there is no earlier sample.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shown, not computed with; never negative"
)]
fn rate(sample: &Sample, count: u64) -> String {
    match sample.elapsed.map(|elapsed| per_second(count, elapsed)) {
        None => "-".to_owned(),
        Some(rate) if rate > 0.0 && rate < 9.95 => format!("{rate:.1}"),
        Some(rate) => grouped(rate.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::observe::{busiest::Activity, delays::Below};

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
            "seen": count(132 + dropped), "passed": count(132), "dropped": count(dropped),
            "would_drop": count(0), "sources": {
                "tracked": 2, "entries": 2, "capacity": 65_536, "memory_bytes": 0, "source_bytes": 32,
                "added": 2, "removed": 0,
            },
        });
        let row = |source: &str, over_since, drops, listed| Row {
            source: source.to_owned(),
            limit: "default".to_owned(),
            network: None,
            listed,
            reason: None,
            activity: Activity {
                passed: 100,
                over: 40_000,
                drops,
                passed_since: 10,
                over_since,
            },
            tokens: 0.5,
            held_seconds: None,
        };
        Sample {
            interface: serde_json::from_value(interface).unwrap(),
            elapsed: Some(Duration::from_secs(2)),
            delays: None,
            rows: vec![
                row("192.0.2.66", 4_000, true, None),
                row("192.0.2.7", 20, false, None),
                row("192.0.2.9", 20, true, Some(DENY)),
            ],
        }
    }

    #[test]
    fn live_view_shows_sums_limits_and_sources() {
        let before = sample(1_000).interface;
        let text = live(&sample(5_200), Some(&before), Duration::from_secs(1));
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
192.0.2.9 default 5.0 denied 100 40,000 0 0.5";
        let lines: Vec<_> = lines.iter().map(|line| line.join(" ")).collect();
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn delays_have_a_line_if_limits_delay() {
        let mut sample = sample(0);
        assert!(!once(&sample).contains("delayed"));
        let mut delays = Delays {
            packets: 200,
            ..Delays::default()
        };
        delays.below.push(Below {
            seconds: 0.016_777_216,
            packets: 199,
        });
        sample.delays = Some(delays);
        let line = "\ndelayed 100/s, 99 % below 16.8 ms\n";
        assert!(once(&sample).contains(line));
        assert!(live(&sample, None, Duration::from_secs(2)).contains(line));
        let json = crate::observe::source::Top::new(&sample);
        assert_eq!(json.delayed_packets_per_second, Some(100.0));
        assert_eq!(json.delayed_below_seconds, Some(0.016_777_216));
    }
}
