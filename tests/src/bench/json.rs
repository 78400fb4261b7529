//! Writes what was measured as JSON.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::{
    machine::Machine,
    report::WHAT,
    series::{Effort, Measured},
};

/// Writes everything to `path`.
pub fn write(path: &Path, machine: &Machine, effort: Effort, measured: &[Measured]) -> Result<()> {
    #[derive(Serialize)]
    struct Report<'a> {
        what: String,
        machine: &'a Machine,
        rounds: u32,
        repeat: u32,
        results: &'a [Measured],
    }
    let Effort { rounds, repeat, .. } = effort;
    let report = Report {
        what: WHAT.trim().replace('\n', " "),
        machine,
        rounds,
        repeat,
        results: measured,
    };
    let json = serde_json::to_string_pretty(&report)?;
    std::fs::write(path, json + "\n").with_context(|| format!("writing {}", path.display()))
}
