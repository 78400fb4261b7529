//! Prints the results of the wire benchmark.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    iter,
};

use super::{
    case::{Case, Sources},
    plan::Plan,
    price,
    series::{LeftOut, Measured},
    subject::Subject,
};

/// Meaning of the figures, and its bounds.
pub const WHAT: &str = "\
Nanoseconds of processor time for a packet that crosses a veth pair: sender and receiver together, on
one processor. Frames have 60 bytes (IPv6: 80). The kernel's test-run sends them as live frames, 64 at a
time. A figure is only given if every sent packet has arrived. The price of a subject is its figure
minus the figure of the bare program. Compare ratios within a run, not two machines.
";

/// Explanation of the tables.
const HOW: &str = "\
Columns: median (lowest..highest) of the rounds, and the median as a multiple of the bare program's.
`new`: every packet has a new source. If packets passed that should be dropped, their share follows the
figure. A price is the difference of two medians.
";

/// With fewer packets per turn, the figures measure the call.
const PACKETS_MIN: u32 = 100_000;

/// Writes the tables.
pub fn print(out: &mut impl Write, plan: &Plan, measured: &[Measured]) -> io::Result<()> {
    writeln!(out, "{WHAT}\n{HOW}")?;
    writeln!(
        out,
        "{} rounds of {} packets each",
        plan.rounds, plan.packets
    )?;
    if plan.packets < PACKETS_MIN {
        writeln!(
            out,
            "Too few packets: this run only checks that the benchmark works. Ignore the figures."
        )?;
    }
    for table in tables(measured) {
        writeln!(out, "\n{}", table[0].case.title())?;
        grid(
            out,
            &table,
            |subject| vec![subject.name()],
            |one, _| Some(cell(one)),
        )?;
        price::print(out, &table)?;
    }
    Ok(())
}

/// Groups the results into tables.
fn tables(measured: &[Measured]) -> Vec<Vec<&Measured>> {
    let mut tables: Vec<Vec<&Measured>> = Vec::new();
    for one in measured {
        match tables
            .iter_mut()
            .find(|table| table[0].case.is_beside(&one.case))
        {
            Some(table) => table.push(one),
            None => tables.push(vec![one]),
        }
    }
    tables
}

fn in_order<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

/// Prints a table with a column for each number of sources. `labels` names the lines of a subject, `cell` fills them.
pub fn grid(
    out: &mut impl Write,
    table: &[&Measured],
    labels: impl Fn(Subject) -> Vec<String>,
    cell: impl Fn(&Measured, usize) -> Option<String>,
) -> io::Result<()> {
    let columns = in_order(table.iter().map(|one| one.case.sources));
    let row = |label: String, cell: &dyn Fn(Sources) -> String| {
        let cells = columns.iter().map(|&sources| cell(sources));
        iter::once(label).chain(cells).collect::<Vec<_>>()
    };
    let mut rows = vec![row("sources".to_owned(), &|sources| sources.to_string())];
    for subject in in_order(table.iter().map(|one| one.subject)) {
        for (line, label) in labels(subject).into_iter().enumerate() {
            rows.push(row(label, &|sources| {
                let mut of = table.iter().filter(|one| one.subject == subject);
                let found = of.find(|one| one.case.sources == sources);
                let cell = found.and_then(|one| cell(one, line));
                cell.unwrap_or_else(|| "-".to_owned())
            }));
        }
    }
    crate::grid::print(out, &rows)
}

fn cell(one: &Measured) -> String {
    let Measured {
        sample,
        times_floor,
        ..
    } = one;
    let figures = format!(
        "{:.0} ({:.0}..{:.0}) x{times_floor:.2}",
        sample.median, sample.min, sample.max
    );
    let drops = one.case.verdict == super::case::Verdict::Dropped && one.subject != Subject::None;
    let percent = (one.delivered * 100).div_ceil(one.sent.max(1));
    if drops && one.delivered > 0 {
        return format!("{figures} {percent}%");
    }
    figures
}

/// Prints the subjects without figures: one line per reason, with its cases.
pub fn print_left_out(out: &mut impl Write, left_out: &[LeftOut]) -> io::Result<()> {
    let mut reasons: BTreeMap<(String, &str), Vec<Case>> = BTreeMap::new();
    for one in left_out {
        let reason = (one.subject.name(), one.why.as_str());
        reasons.entry(reason).or_default().push(one.case);
    }
    for ((subject, why), cases) in reasons {
        match &cases[..] {
            [case] => writeln!(out, "\nleft out: {subject} ({case}): {why}")?,
            _ => writeln!(out, "\nleft out: {subject} ({} cases): {why}", cases.len())?,
        }
    }
    Ok(())
}
