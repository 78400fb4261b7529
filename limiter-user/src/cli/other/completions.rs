use clap::Args;
use clap_complete::Shell;

use crate::cli::{shared::write, typed::complete::script};

/// Print a shell's script for completion
///
/// Tab then offers what this host has: interfaces, limits, lists, bans. The script calls limiter, and belongs to its version.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

pub fn run(arguments: &Completions) -> anyhow::Result<()> {
    Ok(write(&script(&arguments.shell.to_string())?)?)
}
