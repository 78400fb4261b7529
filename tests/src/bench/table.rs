//! Prints the results.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    case::{Case, Verdict},
    plan::Plan,
    series::{LeftOut, Measured},
    subject::Subject,
};

/// Meaning of the figures, and its bounds.
pub const WHAT: &str = "\
Nanoseconds of processor time for a packet that crosses a veth pair: sender and receiver together, on
one processor. Frames have 60 bytes (IPv6: 80). The kernel's test-run sends them as live frames, 64 at a
time. A figure is only given if every sent packet has arrived. Compare ratios within a run, not two
machines.
";

/// Explanation of the tables.
const HOW: &str = "\
Cells: median (lowest..highest) of the rounds, the price (the median minus that of the bare program),
and the median as a multiple of the bare program's. `new`: every packet has a new source. If packets
passed that should be dropped, their share follows.
";

/// With fewer packets per turn, the figures measure the call.
const PACKETS_MIN: u32 = 100_000;

/// The tables: one for each family, verdict and number of processors.
pub fn tables(plan: &Plan, measured: &[Measured]) -> String {
    let Plan {
        rounds, packets, ..
    } = plan;
    let mut text = format!("{WHAT}\n{HOW}\n{rounds} rounds of {packets} packets each\n");
    if *packets < PACKETS_MIN {
        text +=
            "Too few packets: this run only checks that the benchmark works. Ignore the figures.\n";
    }
    for table in measured.chunk_by(|one, next| one.case.is_beside(&next.case)) {
        let _ = write!(text, "\n{}\n{}", table[0].case.title(), grid(table));
    }
    text
}

/// A table with a line for each subject, and a column for each number of sources.
fn grid(table: &[Measured]) -> String {
    let mut head = vec!["sources".to_owned()];
    let mut lines: BTreeMap<Subject, Vec<String>> = BTreeMap::new();
    for column in table.chunk_by(|one, next| one.case == next.case) {
        for one in column {
            let line = lines.entry(one.subject);
            let line = line.or_insert_with(|| vec![one.subject.name()]);
            line.resize(head.len(), "-".to_owned());
            line.push(cell(one));
        }
        head.push(column[0].case.sources.to_string());
    }
    let rows = || std::iter::once(&head).chain(lines.values());
    let width = |at: usize| {
        rows()
            .filter_map(|row| Some(row.get(at)?.chars().count()))
            .max()
    };
    let mut text = String::new();
    for row in rows() {
        for (at, cell) in row.iter().enumerate() {
            let width = width(at).unwrap_or(0);
            let _ = match at {
                0 => write!(text, "{cell:width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}

fn cell(one: &Measured) -> String {
    let Measured {
        sample,
        over_floor,
        times_floor,
        ..
    } = one;
    let figures = format!(
        "{:.0} ({:.0}..{:.0}) {over_floor:+.0} x{times_floor:.2}",
        sample.median, sample.min, sample.max
    );
    let drops = one.case.verdict == Verdict::Dropped && one.subject != Subject::None;
    let percent = (one.delivered * 100).div_ceil(one.sent.max(1));
    if drops && one.delivered > 0 {
        return format!("{figures} {percent}%");
    }
    figures
}

/// The subjects without figures: one line per reason, with its cases.
pub fn left_out(left_out: &[LeftOut]) -> String {
    let mut reasons: BTreeMap<(Subject, &str), Vec<Case>> = BTreeMap::new();
    for one in left_out {
        let reason = (one.subject, one.why.as_str());
        reasons.entry(reason).or_default().push(one.case);
    }
    let line = |((subject, why), cases): (&(Subject, &str), &Vec<Case>)| {
        let cases = match &cases[..] {
            [case] => case.to_string(),
            _ => format!("{} cases", cases.len()),
        };
        format!("\nleft out: {} ({cases}): {why}\n", subject.name())
    };
    reasons.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            case::{Cpus, Family, Sources},
            series::Sample,
        },
        *,
    };

    #[test]
    fn table_has_a_column_for_each_number_of_sources() {
        let measured = |(sources, subject, median): (u32, Subject, f64)| Measured {
            case: Case {
                family: Family::Ipv4,
                verdict: Verdict::Dropped,
                sources: Sources::Number(sources),
                cpus: Cpus::One,
            },
            subject,
            sample: Sample::of(vec![median]).unwrap(),
            over_floor: median - 50.0,
            times_floor: median / 50.0,
            sent: 1_000,
            delivered: 5,
        };
        let results = [
            (1, Subject::BareDrop, 50.0),
            (64, Subject::BareDrop, 50.0),
            (64, Subject::Limiter, 80.0),
        ]
        .map(measured);
        let grid = grid(&results);
        let words = |line: usize| grid.lines().nth(line).unwrap().split_whitespace();
        assert!(words(0).eq("sources 1 64".split(' ')), "{grid}");
        let limiter = "limiter - 80 (80..80) +30 x1.60 1%";
        assert!(words(2).eq(limiter.split(' ')), "{grid}");
    }
}
