//! The output of `check` and `top`.

use crate::{
    observe::{
        Verdicts, denied,
        live::names_of,
        source::{Check, CheckedLimit, OnList, Top, TopSource},
    },
    show::{
        table::table,
        top::draw::number::{maybe, over},
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

/// The prefix that decides, its meaning, and its origin.
fn list_line(on_list: &OnList, check: &Check) -> String {
    let OnList { list, prefix, .. } = on_list;
    let meaning = match list.as_str() {
        "deny" if check.shadow => ": passes only because of shadow",
        "deny" => ": dropped before any limit",
        "allow" => ": passes before any limit",
        _ => "",
    };
    let by = match (on_list.by, &on_list.file, &on_list.host) {
        (Some("file"), Some(file), _) => format!("from {file}, loaded "),
        (Some("fleet"), _, Some(host)) => format!("added by {host} of the fleet, "),
        (Some("fleet"), ..) => "added by the fleet, ".to_owned(),
        (Some("command"), ..) => "added by a command, ".to_owned(),
        _ => "added by an earlier version, ".to_owned(),
    };
    let since = on_list.since.as_deref().unwrap_or("time unknown");
    format!("{prefix} on the {list} list{meaning} ({by}{since})")
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
pub fn top(top: &Top) -> String {
    let Verdicts {
        passed, dropped, ..
    } = top.verdicts;
    let interval = top.interval_seconds.map_or_else(String::new, |interval| {
        format!("; rates over {}", seconds(interval))
    });
    let head = format!(
        "{}: {} passed, {} dropped{interval}\n",
        top.interface,
        grouped(passed.packets),
        grouped(dropped.packets)
    );
    if top.sources.is_empty() && top.denied.is_empty() && top.other_drops.is_empty() {
        return format!("{}: no source is in the table\n", top.interface);
    }
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
    let sources = top.sources.iter().map(source_row);
    let denied = top.denied.iter().map(|of| {
        let rate = of.dropped_packets_per_second;
        drops_row(&of.prefix, denied::LABEL, of.dropped_packets, rate)
    });
    let others = top.other_drops.iter().map(|of| {
        let (source, limit) = names_of(&of.reason);
        let rate = of.dropped_packets_per_second;
        drops_row(source, limit, of.dropped_packets, rate)
    });
    let rows = sources.chain(denied).chain(others);
    format!("{head}{}\n", table(columns, 2, rows))
}

fn source_row(source: &TopSource) -> [String; 8] {
    let dropped = match source.would_drop_packets_per_second {
        _ if source.listed.as_deref() == Some("deny") => "denied".to_owned(),
        Some(would_drop) if would_drop > 0.0 => over(maybe(Some(would_drop)), false),
        _ => maybe(source.dropped_packets_per_second),
    };
    [
        source.source.clone(),
        source.limit.clone(),
        maybe(source.passed_packets_per_second),
        dropped,
        grouped(source.passed_packets),
        grouped(source.dropped_packets),
        grouped(source.would_drop_packets),
        format!("{:.1}", source.tokens),
    ]
}

fn drops_row(source: &str, limit: &str, dropped: u64, rate: Option<f64>) -> [String; 8] {
    let (rate, dropped) = (maybe(rate), grouped(dropped));
    [source, limit, "-", &rate, "-", &dropped, "-", "-"].map(str::to_owned)
}
