//! Prints the results of the steps.

use std::{
    io::{self, Write},
    iter,
};

use super::{
    case::Case,
    programs::STEPS,
    series::{Effort, Measured},
};
use crate::grid;

pub const WHAT: &str = "\
Nanoseconds per packet, measured by the kernel's test-run: the program alone, on frames of 60 bytes in
a warm buffer, without driver, network card or stack. Compare ratios within a run, not two machines.
";

const HOW: &str = "\
Figures are medians, with the best and the worst round. The floor is a program that only drops, on
packets of equally many sources. The bare drop and the direct programs see one source, without the
program that changes it. If the table is larger than the caches, a step includes memory latency, which
differs by some tens of nanoseconds between runs.
";

/// With fewer packets per call, the figures measure the call.
const PACKETS_MIN: u32 = 100_000;

pub fn print(
    out: &mut impl Write,
    effort: Effort,
    cases: &[Case],
    measured: &[Measured],
) -> io::Result<()> {
    writeln!(out, "{WHAT}")?;
    writeln!(
        out,
        "{} rounds of {} packets each\n",
        effort.rounds, effort.repeat
    )?;
    if effort.repeat < PACKETS_MIN {
        writeln!(
            out,
            "Too few packets: this run only checks that the benchmark works. Ignore the figures.\n"
        )?;
    }
    print_programs(out, measured)?;
    writeln!(out, "\n{HOW}")?;
    print_steps(out, cases, measured)
}

fn print_programs(out: &mut impl Write, measured: &[Measured]) -> io::Result<()> {
    let head = [
        "program",
        "sources",
        "all",
        "ns",
        "best..worst",
        "over floor",
        "x floor",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let is_step = |one: &&Measured| STEPS.iter().any(|step| step.program == one.name);
    for one in measured.iter().filter(|one| !is_step(one)) {
        let Measured { sample, .. } = one;
        rows.push(vec![
            one.name.to_owned(),
            one.sources.to_string(),
            one.verdict.word().to_owned(),
            format!("{:.1}", sample.median),
            format!("{:.1}..{:.1}", sample.min, sample.max),
            format!("{:.1}", one.over_floor),
            format!("{:.2}", one.times_floor),
        ]);
    }
    grid::print(out, &rows)
}

/// One line per step, one column per case: the time that the step adds.
fn print_steps(out: &mut impl Write, cases: &[Case], measured: &[Measured]) -> io::Result<()> {
    let over_floor = |case: &Case, name: &str| {
        let found = measured.iter().find(|one| {
            one.sources == case.sources && one.verdict == case.verdict && one.name == name
        });
        found.map_or(0.0, |one| one.over_floor)
    };
    let row = |label: &str, cell: &dyn Fn(&Case) -> String| {
        let cells = cases.iter().map(cell);
        iter::once(label.to_owned())
            .chain(cells)
            .collect::<Vec<_>>()
    };
    let title = |case: &Case| format!("{} {}", case.sources, case.verdict.word());
    let mut rows = vec![row("cost of each step", &title)];
    let mut before = "floor";
    for step in STEPS {
        rows.push(row(step.adds, &|case| {
            let added = over_floor(case, step.program) - over_floor(case, before);
            format!("{added:.1}")
        }));
        before = step.program;
    }
    for (title, name) in [("all steps", before), ("the program itself", "limiter")] {
        rows.push(row(title, &|case| format!("{:.1}", over_floor(case, name))));
    }
    grid::print(out, &rows)
}
