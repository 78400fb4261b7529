//! Computes the gain of a second processor.

use std::io::{self, Write};

use serde::Serialize;

use super::{
    case::{Case, Cpus},
    results::Results,
    series::Measured,
    subject::Subject,
    table::{grid, tables},
};

/// Throughput of two processors, compared with one.
#[derive(Clone, Debug, Serialize)]
pub struct Scaling {
    #[serde(flatten)]
    pub case: Case,
    pub subject: Subject,
    /// Million packets per second of one processor.
    pub mpps_one: f64,
    /// Million packets per second of both together.
    pub mpps_two: f64,
    pub times: f64,
    /// Packets per second of the slower processor, as a share of one processor alone.
    pub slower: f64,
}

impl Scaling {
    /// The scaling of a result with two processors; none without a result of one.
    pub fn of(two: &Measured, results: Results<'_>) -> Option<Self> {
        let one = results.find(two.case.on(Cpus::One), two.subject)?;
        Some(Self {
            case: two.case,
            subject: two.subject,
            mpps_one: one.mpps,
            mpps_two: two.mpps,
            times: two.mpps / one.mpps,
            slower: one.sample.median / two.slower?,
        })
    }
}

/// The scaling of all results with two processors.
pub fn all(measured: &[Measured]) -> Vec<Scaling> {
    let results = Results(measured);
    measured
        .iter()
        .filter(|one| one.case.cpus != Cpus::One)
        .filter_map(|two| Scaling::of(two, results))
        .collect()
}

pub const WHAT: &str = "\
Packets that two processors receive per second of their time, as a multiple of one processor's; and
packets of the slower of the two, as a share of one processor alone.
";

/// Prints the tables.
pub fn print(out: &mut impl Write, measured: &[Measured]) -> io::Result<()> {
    let of_two = |table: &Vec<&Measured>| table[0].case.cpus != Cpus::One;
    for (number, table) in tables(measured).into_iter().filter(of_two).enumerate() {
        if number == 0 {
            writeln!(out, "\nScaling\n\n{WHAT}")?;
        }
        writeln!(out, "{}: million packets a second", table[0].case.title())?;
        let cell = |one: &Measured, _| Some(Scaling::of(one, Results(measured))?.cell());
        grid(out, &table, |subject| vec![subject.name()], cell)?;
        writeln!(out)?;
    }
    Ok(())
}

impl Scaling {
    fn cell(&self) -> String {
        let Self {
            mpps_one,
            mpps_two,
            times,
            slower,
            ..
        } = self;
        let share = slower * 100.0;
        format!("{mpps_one:.1} -> {mpps_two:.1} x{times:.2} {share:.0}%")
    }
}
