//! The output of `check`.

use crate::{
    observe::{Check, CheckedLimit, OnList},
    show::units::{grouped, seconds},
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
    if check.limits.is_empty() && check.missing.is_empty() && check.listed.is_none() {
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
        if let Some(time) = limit.held_seconds {
            text.push_str(&format!("    held for another {}\n", seconds(time)));
        }
        if let Some(wait) = limit.retry_after_seconds.filter(|wait| *wait > 0.0) {
            text.push_str(&format!(
                "    the next packet passes in {}\n",
                seconds(wait)
            ));
        }
        if let Some(refused) = limit.refused {
            text.push_str(&format!(
                "    refused as a new source {} ago: it has a second chance for another {}\n",
                seconds(refused.seconds_ago),
                seconds(refused.seconds_left)
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
    for missing in &check.missing {
        text.push_str(&format!(
            "  {}: not checked, because its key is {}: give {} too\n",
            missing.limit,
            missing.key,
            missing.options.join(", ")
        ));
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
