//! The output of `check`.

use limiter_common::policy::verdict::Reason;

use crate::{
    observe::{Check, CheckedLimit, ExplainedPacket, OnList, check::BAN},
    show::{
        bans,
        units::{grouped, seconds},
    },
};

/// The state of one source.
pub fn check(check: &Check) -> String {
    let of_packet = check.packet.as_ref();
    let packet = of_packet.map(|explained| format!(": {}", explained.packet));
    let packet = packet.unwrap_or_default();
    let mut text = format!("{} on {}{packet}\n", check.source, check.interface);
    if let Some(ban) = &check.ban {
        let shadow = if check.shadow {
            ", passes only because of shadow"
        } else {
            ""
        };
        let (since, dropped) = (bans::since(ban), grouped(ban.dropped_packets));
        text += &format!("  {} banned {since}{shadow}\n", ban.prefix);
        text += &format!("    {dropped} dropped by it\n");
        if check.listed == Some(BAN) && !check.shadow {
            text += "    its packets are dropped while the ban lasts, also those of the host's own connections\n";
        }
    }
    for on_list in &check.lists {
        text.push_str(&format!("  {}\n", list_line(on_list, check)));
    }
    if check.listed == Some("deny") && !check.shadow {
        text.push_str("    no packet passes while the prefix is on the list\n");
    }
    if check.limits.is_empty() && check.missing.is_empty() && check.listed.is_none() {
        text.push_str("  no limit matches it: passes\n");
    }
    // A list decides before any limit is asked.
    let is_met = |limit: &&CheckedLimit| {
        of_packet.is_none_or(|explained| !explained.other_limits.contains(&limit.name))
    };
    for limit in check.limits.iter().filter(is_met) {
        let state = match limit.tracked {
            true => "",
            false => " (not in the table: its bucket is full)",
        };
        let (bucket, burst) = (bucket(limit, check), grouped(limit.burst_tokens));
        let (name, tokens) = (&limit.name, limit.tokens);
        text += &format!("  {name}{bucket}: {tokens:.1} of {burst} tokens{state}\n");
        let wait = limit.retry_after_seconds.filter(|wait| *wait > 0.0);
        let [passed, dropped] = [limit.passed_packets, limit.dropped_packets].map(grouped);
        let would_drop = Some(limit.would_drop_packets).filter(|packets| *packets > 0);
        let lines = [
            (limit.held_seconds).map(|time| format!("held for another {}", seconds(time))),
            wait.map(|wait| format!("the next packet passes in {}", seconds(wait))),
            limit.connections.map(|connections| {
                let [most, open] = [connections.most, connections.open].map(grouped);
                format!("{open} of {most} connections open")
            }),
            limit.refused.map(|refused| {
                let [ago, left] = [refused.seconds_ago, refused.seconds_left].map(seconds);
                format!(
                    "refused as a new source {ago} ago: a packet of the next {left} may be let in"
                )
            }),
            (limit.tracked)
                .then(|| format!("{passed} passed, {dropped} dropped since it entered the table")),
            would_drop.map(|packets| format!("{} passed only because of shadow", grouped(packets))),
        ];
        let lines = lines.into_iter().flatten();
        text.extend(lines.map(|line| format!("    {line}\n")));
    }
    for missing in &check.missing {
        let (limit, key, options) = (&missing.limit, &missing.key, missing.options.join(", "));
        text += &format!("  {limit}: not checked, because its key is {key}: give {options} too\n");
    }
    text + &of_packet.map_or_else(String::new, verdict)
}

/// The verdict about a packet.
fn verdict(explained: &ExplainedPacket) -> String {
    let mut lines = Vec::new();
    let charged = explained.limits.join(", ");
    let limit = explained.limit.as_ref();
    let limit = limit.map(|limit| format!(" {limit}")).unwrap_or_default();
    let why = explained.text.as_deref().unwrap_or_default();
    if !explained.other_limits.is_empty() && !explained.limits.is_empty() {
        let others = explained.other_limits.join(", ");
        lines.push(format!("limits that do not match: {others}"));
    }
    let is_refused = explained.reason.as_deref().and_then(Reason::from_name);
    let is_refused = is_refused.is_some_and(|reason| !reason.passes());
    lines.push(match (explained.passes, is_refused) {
        (None, _) => {
            let missing = explained.missing.join(", ");
            format!("whether this packet passes is not known: give {missing} too")
        }
        (Some(true), true) => {
            format!("this packet would pass only because of shadow: {why}{limit}")
        }
        (Some(true), false) if charged.is_empty() => format!("this packet would pass: {why}"),
        (Some(true), false) => format!("this packet would pass, charged to {charged}"),
        (Some(false), _) => format!("this packet would be DROPPED: {why}{limit}"),
    });
    if explained.new_source {
        lines.push(
            "its source is new: in a flood, the limit of new sources may refuse it".to_owned(),
        );
    }
    if explained.exempts_established {
        lines.push("packets of the host's own connections pass uncharged (exempt)".to_owned());
    }
    lines.iter().map(|line| format!("  {line}\n")).collect()
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
    let added = match (&on_list.host, &on_list.since) {
        (Some(host), Some(since)) => format!(" (added by {host} of the fleet, {since})"),
        (Some(host), None) => format!(" (added by {host} of the fleet)"),
        (None, _) if on_list.by.is_some() => " (added by the fleet)".to_owned(),
        (None, _) => String::new(),
    };
    format!("{prefix} on the {list} list{meaning}{added}")
}

/// The source of the bucket, if it differs from the source in the first line.
fn bucket(limit: &CheckedLimit, check: &Check) -> String {
    let other = Some(&limit.bucket).filter(|bucket| **bucket != check.source);
    other.map_or_else(String::new, |bucket| format!(" for {bucket}"))
}
