//! Prints the results as tables.

use std::io::{self, Write};

use super::{
    case::{Case, Verdict},
    programs::STEPS,
    series::{Effort, Measured},
};

/// Meaning of the figures, and its bounds.
pub const WHAT: &str = "\
Nanoseconds a packet by the kernel's test-run: the program alone, on frames of 60 bytes in a warm
buffer, without driver, network card or stack. Compare the ratios of one run, not two machines.
";

/// Explanation of the tables.
const HOW: &str = "\
Medians, with the best and the worst round. The floor is a program that only drops, on packets of as
many sources; the bare drop and what is called direct meet one source, without the program that
changes it. Where the table is larger than the caches, a step's share is also the memory's: it differs
by some tens of nanoseconds between runs.
";

/// With fewer packets per call, the figures measure the call.
const FEWEST: u32 = 100_000;

/// Writes the tables.
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
    if effort.repeat < FEWEST {
        writeln!(
            out,
            "These are too few packets: only see that it works, and forget the figures.\n"
        )?;
    }
    print_programs(out, measured)?;
    writeln!(out, "\n{HOW}")?;
    print_steps(out, cases, measured)
}

fn print_programs(out: &mut impl Write, measured: &[Measured]) -> io::Result<()> {
    writeln!(
        out,
        "{:>9}  {:4}  {:18} {:>7} {:>17} {:>11} {:>7}",
        "sources", "all", "program", "ns", "best..worst", "over floor", "x floor"
    )?;
    for one in measured
        .iter()
        .filter(|one| STEPS.iter().all(|step| step.program != one.name))
    {
        writeln!(
            out,
            "{:>9}  {:4}  {:18} {:>7.1} {:>17} {:>11.1} {:>7.2}",
            one.sources,
            word(one.verdict),
            one.name,
            one.sample.median,
            format!("{:.1}..{:.1}", one.sample.min, one.sample.max),
            one.over_floor,
            one.times_floor
        )?;
    }
    Ok(())
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Drop => "drop",
    }
}

/// One line per step, one column per case: the time that the step adds.
fn print_steps(out: &mut impl Write, cases: &[Case], measured: &[Measured]) -> io::Result<()> {
    write!(out, "{:22}", "what each step adds")?;
    for case in cases {
        write!(
            out,
            " {:>13}",
            format!("{} {}", case.sources, word(case.verdict))
        )?;
    }
    writeln!(out)?;
    let over_floor = |case: &Case, name: &str| {
        let found = measured.iter().find(|one| {
            one.sources == case.sources && one.verdict == case.verdict && one.name == name
        });
        found.map_or(0.0, |one| one.over_floor)
    };
    let mut before = "floor";
    for step in STEPS {
        write!(out, "{:22}", step.adds)?;
        for case in cases {
            let added = over_floor(case, step.program) - over_floor(case, before);
            write!(out, " {added:>13.1}")?;
        }
        writeln!(out)?;
        before = step.program;
    }
    for (title, name) in [("all steps", before), ("the program itself", "limiter")] {
        write!(out, "{title:22}")?;
        for case in cases {
            write!(out, " {:>13.1}", over_floor(case, name))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
