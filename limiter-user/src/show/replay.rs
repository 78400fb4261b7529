//! The output of `replay`: the sources that would have been dropped.

use crate::{
    observe::{
        Count,
        replay::{Replay, ReplayedLimit, ReplayedSource},
    },
    show::{
        table::table,
        units::{counted, grouped, seconds},
    },
};

const SHOWN: usize = 10;

/// The packets by limit and by source.
pub fn text(replay: &Replay) -> String {
    let mut text = format!(
        "{} in {}: {} passed, {} dropped ({})\n",
        counted(replay.verdicts.seen.packets, "packet"),
        seconds(replay.seconds),
        grouped(replay.verdicts.passed.packets),
        grouped(replay.verdicts.dropped.packets),
        replay.engine
    );
    let drops = &replay.drops;
    let mut line = |what: &str, count: Count| {
        if count.packets > 0 {
            text.push_str(&format!("  {} {what}\n", grouped(count.packets)));
        }
    };
    for (reason, count) in drops.iter() {
        line(reason.text(), count);
    }
    line("passed only because of shadow", replay.verdicts.would_drop);
    line("not IP: passed", replay.not_ip);
    line(
        "sent by the host itself: passed, not limited",
        replay.outgoing,
    );
    let others = replay.other_sources.map_or(0, |others| others.seen_packets);
    line(
        "of sources beyond those that fit into memory",
        Count {
            packets: others,
            bytes: 0,
        },
    );
    text.push_str(&format!("\n{}\n", limits(&replay.limits)));
    let lost = |source: &&ReplayedSource| {
        source.counters.dropped_packets + source.counters.would_drop_packets > 0
    };
    let dropped: Vec<_> = replay.sources.iter().filter(lost).collect();
    if dropped.is_empty() {
        text.push_str("\nNo source would have lost a packet.\n");
        return text;
    }
    text.push_str(&format!(
        "\n{}\n",
        sources(&dropped[..dropped.len().min(SHOWN)])
    ));
    if dropped.len() > SHOWN {
        let more = counted((dropped.len() - SHOWN) as u64, "source");
        text.push_str(&format!("and {more} more\n"));
    }
    text
}

fn limits(limits: &[ReplayedLimit]) -> String {
    let row = |limit: &ReplayedLimit| {
        [
            limit.name.clone(),
            limit.rate.clone(),
            limit.burst.clone(),
            limit.key.clone(),
            grouped(limit.passed.packets),
            grouped(limit.dropped.packets),
            grouped(limit.would_drop.packets),
        ]
    };
    let columns = [
        "LIMIT",
        "RATE",
        "BURST",
        "KEY",
        "PASSED",
        "DROPPED",
        "WOULD DROP",
    ];
    table(columns, 4, limits.iter().map(row))
}

fn sources(sources: &[&ReplayedSource]) -> String {
    let row = |ReplayedSource { source, counters }: &&ReplayedSource| {
        [
            source.clone(),
            grouped(counters.seen_packets),
            grouped(counters.passed_packets),
            grouped(counters.dropped_packets),
            grouped(counters.would_drop_packets),
        ]
    };
    let columns = ["SOURCE", "PACKETS", "PASSED", "DROPPED", "WOULD DROP"];
    table(columns, 1, sources.iter().map(row))
}
