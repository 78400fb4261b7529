//! The output of `check` and `top`.

use crate::{
    observe::{
        Interface,
        live::{Row, Sample, per_second},
        source::{Check, CheckedLimit, OnList},
    },
    show::{
        table::table,
        top::draw::{
            number::maybe,
            sources::{drop_rate, of_source},
        },
        units::{grouped, seconds},
    },
};

/// The state of one source.
pub fn check(check: &Check) -> String {
    let mut text = format!("{} on {}\n", check.source, check.interface);
    for on_list in &check.lists {
        text.push_str(&format!("  {}\n", list_line(on_list, check)));
        if let Some(dropped) = on_list.dropped_packets {
            text.push_str(&format!("    {} dropped by it\n", grouped(dropped)));
        }
    }
    if check.listed == Some("deny") && !check.shadow {
        text.push_str("    no packet passes while the prefix is on the list\n");
    }
    if check.limits.is_empty() && check.listed.is_none() {
        text.push_str("  no limit matches it: passes\n");
    }
    for limit in &check.limits {
        let state = if limit.tracked {
            ""
        } else {
            " (not in the table: its bucket is full)"
        };
        text.push_str(&format!(
            "  {}{}: {:.1} of {} tokens{state}\n",
            limit.name,
            bucket(limit, check),
            limit.tokens,
            grouped(limit.burst_tokens)
        ));
        if let Some(wait) = limit.retry_after_seconds.filter(|wait| *wait > 0.0) {
            text.push_str(&format!(
                "    the next packet passes in {}\n",
                seconds(wait)
            ));
        }
        if limit.tracked {
            text.push_str(&format!(
                "    {} passed, {} dropped since it entered the table\n",
                grouped(limit.passed_packets),
                grouped(limit.dropped_packets)
            ));
        }
        if limit.would_drop_packets > 0 {
            text.push_str(&format!(
                "    {} passed only because of shadow\n",
                grouped(limit.would_drop_packets)
            ));
        }
    }
    text
}

/// The prefix that decides, its meaning, and the host of the fleet that added it.
fn list_line(on_list: &OnList, check: &Check) -> String {
    let OnList { list, prefix, .. } = on_list;
    let meaning = match list.as_str() {
        "deny" if check.shadow => ": passes only because of shadow",
        "deny" => ": dropped before any limit",
        "allow" => ": passes before any limit",
        _ => "",
    };
    let by = match (&on_list.host, &on_list.since) {
        (Some(host), Some(since)) => format!(" (added by {host} of the fleet, {since})"),
        (Some(host), None) => format!(" (added by {host} of the fleet)"),
        (None, _) if on_list.by.is_some() => " (added by the fleet)".to_owned(),
        (None, _) => String::new(),
    };
    format!("{prefix} on the {list} list{meaning}{by}")
}

/// The source of the bucket, if it differs from the source in the first line.
fn bucket(limit: &CheckedLimit, check: &Check) -> String {
    if limit.bucket == check.source {
        String::new()
    } else {
        format!(" for {}", limit.bucket)
    }
}

/// The busiest sources, and the drops of others.
pub fn top(sample: &Sample) -> String {
    let Interface { name, verdicts, .. } = &sample.interface;
    if sample.rows.is_empty() {
        return format!("{name}: no source is in the table\n");
    }
    let interval = sample.elapsed.map_or_else(String::new, |interval| {
        format!("; rates over {}", seconds(interval.as_secs_f64()))
    });
    let head = format!(
        "{name}: {} passed, {} dropped{interval}\n",
        grouped(verdicts.passed.packets),
        grouped(verdicts.dropped.packets)
    );
    let columns = [
        "SOURCE",
        "LIMIT",
        "PASS/s",
        "DROP/s",
        "PASSED",
        "DROPPED",
        "WOULD DROP",
        "TOKENS",
    ];
    let rate = |count| maybe(sample.elapsed.map(|elapsed| per_second(count, elapsed)));
    let row = |row: &Row| {
        let of = &row.activity;
        let (dropped, would_drop) = of.split(of.over);
        [
            row.source.clone(),
            row.limit.clone(),
            of_source(row, rate(of.passed_since)),
            drop_rate(row, &rate),
            of_source(row, grouped(of.passed)),
            grouped(dropped),
            of_source(row, grouped(would_drop)),
            of_source(row, format!("{:.1}", of.tokens)),
        ]
    };
    let rows = sample.rows.iter().map(row);
    format!("{head}{}\n", table(columns, 2, rows))
}
