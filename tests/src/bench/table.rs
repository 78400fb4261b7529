//! Prints the results.

use std::{collections::BTreeMap, fmt::Write as _};

use limiter_user::show::table::table;

use super::{
    case::Verdict,
    plan::Plan,
    series::{Measured, Results},
};

/// Meaning of the figures, and its bounds.
pub const WHAT: &str = "\
Nanoseconds of processor time for a packet that crosses a veth pair: sender and receiver together, on
one processor. Frames have 60 bytes (IPv6: 80); those of a mix differ. The kernel's test-run sends them
as live frames, 64 at a time. A figure is only given if every sent packet has arrived. Compare ratios
within a run, not two machines.
";

/// Explanation of the tables.
const HOW: &str = "\
NS: median of the rounds; Q1, Q3: their quartiles. PRICE: the median minus that of the bare program.
RATIO: the median as a multiple of the bare program's. `new`: every packet has a new source. PASSED:
share of the packets that passed, if they should be dropped.
";

/// The tables: one for each family, verdict and number of processors; and the subjects without figures.
pub fn tables(plan: &Plan, results: &Results) -> String {
    let Plan {
        rounds, packets, ..
    } = plan;
    let mut text = format!("{WHAT}\n{HOW}\n{rounds} rounds of {packets} packets each\n");
    // With fewer packets per turn, the figures measure the call.
    if *packets < 100_000 {
        text +=
            "Too few packets: this run only checks that the benchmark works. Ignore the figures.\n";
    }
    let title = |measured: &Measured| measured.case.title();
    for group in results
        .results
        .chunk_by(|measured, next| title(measured) == title(next))
    {
        let columns = "SUBJECT|SOURCES|NS|LOWEST|Q1|Q3|HIGHEST|PRICE|RATIO|PASSED";
        let rows = table(columns, 1, group.iter().map(cells));
        let _ = write!(text, "\n{}\n{rows}\n", title(&group[0]));
    }
    let mut reasons: BTreeMap<_, u32> = BTreeMap::new();
    for left_out in &results.left_out {
        *reasons
            .entry((left_out.subject, &left_out.why))
            .or_default() += 1;
    }
    for ((subject, why), cases) in reasons {
        let _ = writeln!(text, "\nleft out: {subject} (cases: {cases}): {why}");
    }
    text
}

fn cells(measured: &Measured) -> [String; 10] {
    let percent = (measured.delivered * 100).div_ceil(measured.sent.max(1));
    let passed = match measured.case.verdict {
        Verdict::Dropped => format!("{percent}%"),
        Verdict::Passed => String::new(),
    };
    [
        measured.subject.to_owned(),
        measured.case.sources.to_string(),
        format!("{:.0}", measured.median),
        format!("{:.0}", measured.min),
        format!("{:.0}", measured.quartiles[0]),
        format!("{:.0}", measured.quartiles[1]),
        format!("{:.0}", measured.max),
        format!("{:+.0}", measured.over_floor),
        format!("{:.2}", measured.times_floor),
        passed,
    ]
}
