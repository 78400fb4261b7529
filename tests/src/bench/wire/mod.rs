//! Measures the cost of a packet on a wire: two hosts in network namespaces, a sender in the kernel of one, and each
//! subject in turn on the other.
//!
//! One processor sends and receives in batches, one after the other, so that no packet is lost. A figure is processor
//! time per packet, including its sending. The price of a subject is its figure minus the figure of a program that only
//! drops, or only passes.

mod case;
mod limiter;
mod netfilter;
mod offer;
mod plan;
mod price;
mod series;
mod subject;
mod table;
mod testbed;

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

pub use case::Sources;
pub use plan::Plan;
use price::Price;
use series::{LeftOut, Measured};
pub use subject::Subject;

#[derive(Debug, Serialize)]
pub struct Wire {
    what: String,
    #[serde(flatten)]
    plan: Plan,
    results: Vec<Measured>,
    prices: Vec<Price>,
    left_out: Vec<LeftOut>,
}

impl Wire {
    pub fn measure(plan: Plan, cpus: &[usize]) -> Result<Self> {
        let (mut results, mut left_out) = (Vec::new(), Vec::new());
        for case in plan.cases(cpus.len()) {
            eprintln!("bench: {case}");
            let series = series::measure(case, &plan, cpus)?;
            results.extend(series.measured);
            left_out.extend(series.left_out);
        }
        Ok(Self {
            what: table::WHAT.trim().replace('\n', " "),
            plan,
            prices: price::all(&results),
            results,
            left_out,
        })
    }

    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        table::print(out, &self.plan, &self.results)?;
        table::print_left_out(out, &self.left_out)
    }
}
