//! Measures the time per packet of the program alone, and of each of its steps, by the kernel's test-run.

mod case;
mod driver;
mod objects;
mod programs;
mod report;
mod series;
mod subject;

use std::io::{self, Write};

use anyhow::Result;
use limiter_user::kernel::sys::requirements;
use serde::Serialize;

use case::{Case, Verdict};
pub use series::Effort;
use series::Measured;

#[derive(Debug, Serialize)]
pub struct Steps {
    what: String,
    #[serde(flatten)]
    effort: Effort,
    #[serde(skip)]
    cases: Vec<Case>,
    results: Vec<Measured>,
}

impl Steps {
    /// Measures with these numbers of sources, which are powers of two.
    pub fn measure(effort: Effort, sources: &[u32]) -> Result<Self> {
        let frags = requirements::kernel()?.has_frags();
        let cases: Vec<Case> = sources
            .iter()
            .flat_map(|&sources| Verdict::ALL.map(|verdict| Case { sources, verdict }))
            .collect();
        let mut results = Vec::new();
        for case in &cases {
            results.extend(series::measure(*case, effort, frags)?);
        }
        Ok(Self {
            what: report::WHAT.trim().replace('\n', " "),
            effort,
            cases,
            results,
        })
    }

    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        report::print(out, self.effort, &self.cases, &self.results)
    }
}
