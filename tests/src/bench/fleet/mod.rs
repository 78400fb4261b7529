//! Measures the cost of a fleet's store, with simulated members and one real server or a cluster of three.
//!
//! Each member has its own connection, and the product's own ledger of its sources. There is no table and no traffic.

mod case;
mod figures;
mod member;
mod servers;
mod table;

use std::{io, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

pub use case::Case;
use figures::Figures;

#[derive(Debug, Serialize)]
pub struct Fleet {
    /// Description of the figures.
    what: &'static str,
    results: Vec<Figures>,
}

impl Fleet {
    /// Measures each case in its own process, so that memory and processor time are the members' alone.
    pub fn measure(quick: bool) -> Result<Self> {
        let cases = if quick { case::quick() } else { case::all() };
        let results: Result<_> = cases.iter().map(measured_apart).collect();
        Ok(Self {
            what: table::WHAT,
            results: results?,
        })
    }

    pub fn print(&self, out: &mut impl io::Write) -> io::Result<()> {
        table::print(out, &self.results)
    }
}

fn measured_apart(case: &Case) -> Result<Figures> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--fleet-case", &serde_json::to_string(case)?]);
    let output = command.output().context("measuring a fleet")?;
    ensure!(
        output.status.success(),
        "{case:?}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let figures: Figures = serde_json::from_slice(&output.stdout).context("the figures")?;
    eprintln!("{}", table::row(&figures).join(" "));
    Ok(figures)
}

/// Measures one case here, and prints its figures as JSON.
pub fn measure_here(case: &str) -> Result<()> {
    let case: Case = serde_json::from_str(case)?;
    println!("{}", serde_json::to_string(&figures::measure(case)?)?);
    Ok(())
}
