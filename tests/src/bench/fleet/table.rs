//! Prints the results of the fleet benchmark.

use std::{io, iter};

use super::figures::Figures;
use crate::grid;

pub const WHAT: &str = "Simulated members of a fleet in one process, each with its own connection to a real \
server on this machine. In each round, every source is charged at each of its members. Rounds follow each other \
without pause: they are limited by the store and by the members' processor. Bytes are those that the server has \
received and sent. Compare ratios within a run, not two machines.";

const HEAD: [&str; 13] = [
    "agents",
    "sources",
    "at hosts",
    "store",
    "round, s",
    "to",
    "from",
    "B/source",
    "store us",
    "agent us",
    "store B",
    "agent B",
    "store busy, uneven",
];

pub fn row(of: &Figures) -> Vec<String> {
    let case = of.case;
    let memory = of.store_memory.map(|bytes| format!("{bytes:.0}"));
    let bytes = (of.to_store + of.from_store) / f64::from(case.sources);
    vec![
        case.agents.to_string(),
        case.sources.to_string(),
        case.at.to_string(),
        (if case.cluster { "3 nodes" } else { "1 server" }).to_owned(),
        format!(
            "{:.2} ({:.2}..{:.2})",
            of.round.median, of.round.min, of.round.max
        ),
        format!("{:.0}k", of.to_store / 1e3),
        format!("{:.0}k", of.from_store / 1e3),
        format!("{bytes:.1}"),
        format!("{:.2}", of.store_us),
        format!("{:.2}", of.agent_us),
        memory.unwrap_or_else(|| "-".to_owned()),
        format!("{:.0}", of.agent_memory),
        format!(
            "{:.0}% {:.2}/{:.2}",
            of.store_busy * 100.0,
            of.unevenness[0],
            of.unevenness[1]
        ),
    ]
}

pub fn print(out: &mut impl io::Write, results: &[Figures]) -> io::Result<()> {
    writeln!(out, "{WHAT}\n")?;
    writeln!(
        out,
        "round: seconds from the scan to the last answer; to, from: bytes of one member to and from the store in a \
         round;\nus: microseconds of processor time for one source of one member in one round; B: bytes of memory \
         per source;\nuneven: bytes and records of the busiest node, as a multiple of an equal share\n"
    )?;
    let head = HEAD.map(str::to_owned).to_vec();
    let rows: Vec<_> = iter::once(head).chain(results.iter().map(row)).collect();
    grid::print(out, &rows)?;
    writeln!(out)?;
    growth(out, results)?;
    let most = results.iter().max_by_key(|of| of.case.agents);
    if let Some(most) = most {
        writeln!(
            out,
            "heartbeats of one of {} members, per second (four heartbeats, and a comparison of limits): {:.0} bytes to \
             the store, {:.0} bytes back, {:.0} us of the store's processor time",
            most.case.agents, most.beside[0], most.beside[1], most.beside_us
        )?;
    }
    Ok(())
}

/// Prints the ratio of a member's traffic with many members to its traffic with few.
fn growth(out: &mut impl io::Write, results: &[Figures]) -> io::Result<()> {
    let spread = |of: &Figures| {
        let case = of.case;
        let at = if case.at == case.agents { 0 } else { case.at };
        (case.cluster, case.sources, at)
    };
    let mut seen = Vec::new();
    for few in results {
        if seen.contains(&spread(few)) {
            continue;
        }
        seen.push(spread(few));
        let alike = results.iter().filter(|of| spread(of) == spread(few));
        for many in alike.filter(|many| many.case.agents > few.case.agents) {
            let ratio = |figure: fn(&Figures) -> f64| figure(many) / figure(few);
            let at = match spread(few).2 {
                0 => "all".to_owned(),
                at => at.to_string(),
            };
            writeln!(
                out,
                "{} members instead of {}, {} sources each, at {at}: bytes per member x{:.2}, store's time per source x{:.2}",
                many.case.agents,
                few.case.agents,
                few.case.sources,
                ratio(|of| of.to_store + of.from_store),
                ratio(|of| of.store_us),
            )?;
        }
    }
    writeln!(out)
}
