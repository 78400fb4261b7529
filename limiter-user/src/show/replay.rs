//! The output of `replay`: the sources that would have been dropped.

use limiter_common::abi::counters::LimitCounters;
use limiter_config::{Direction, Limit};

use crate::{
    plan::replay::{FRAME_MAX, Outcome, SourceCounters},
    show::{
        table::table,
        units::{counted, grouped, seconds},
    },
};

const SHOWN: usize = 10;

/// The packets by limit and by source, of a replay for this direction.
pub fn text(replay: &Outcome, direction: Direction) -> String {
    let (verdicts, time) = (&replay.verdicts, seconds(replay.seconds));
    let [passed, dropped] = [verdicts.passed, verdicts.dropped].map(|count| grouped(count.packets));
    let seen = counted(verdicts.seen.packets, "packet");
    let mut text = format!("{seen} in {time}: {passed} passed, {dropped} dropped\n");
    let drops = replay.drops.iter();
    let lines = drops.map(|(reason, count)| (reason.text(), count.packets));
    let (other, others) = (replay.other_direction.packets, replay.of_others);
    let of_other = match direction {
        Direction::In => "sent by the host itself: passed, not limited",
        Direction::Out => "received by the host: passed, not limited",
    };
    for (label, packets) in lines.chain([
        ("passed only because of shadow", verdicts.would_drop.packets),
        ("not IP: passed", replay.not_ip),
        (of_other, other),
        ("of sources beyond those that fit into memory", others),
    ]) {
        if packets > 0 {
            text.push_str(&format!("  {} {label}\n", grouped(packets)));
        }
    }
    text.push_str(&format!("\n{}\n", limits(&replay.limits)));
    let sources_hit = replay
        .sources
        .iter()
        .filter(|(_, counters)| counters.is_hit());
    let hit: Vec<_> = sources_hit.collect();
    if hit.is_empty() {
        return text + "\nNo source would have lost a packet.\n";
    }
    text.push_str(&format!("\n{}\n", sources(&hit[..hit.len().min(SHOWN)])));
    if hit.len() > SHOWN {
        let more = counted((hit.len() - SHOWN) as u64, "source");
        text.push_str(&format!("and {more} more\n"));
    }
    text
}

fn limits(limits: &[(Limit, LimitCounters)]) -> String {
    let row = |(limit, counters): &(Limit, LimitCounters)| {
        let burst = limit.burst(FRAME_MAX).map(|burst| burst.to_string());
        [
            limit.name.clone(),
            limit.rate.to_string(),
            burst.unwrap_or_default(),
            limit.key.to_string(),
            grouped(counters.admitted.packets + counters.would_drop.packets),
            grouped(counters.dropped.packets),
            grouped(counters.would_drop.packets),
        ]
    };
    let columns = "LIMIT|RATE|BURST|KEY|PASSED|DROPPED|WOULD DROP";
    table(columns, 4, limits.iter().map(row))
}

fn sources(sources: &[&(String, SourceCounters)]) -> String {
    let row = |(source, counters): &&(String, SourceCounters)| {
        [
            source.clone(),
            grouped(counters.passed + counters.dropped),
            grouped(counters.passed),
            grouped(counters.dropped),
            grouped(counters.would_drop),
        ]
    };
    let columns = "SOURCE|PACKETS|PASSED|DROPPED|WOULD DROP";
    table(columns, 1, sources.iter().map(row))
}
