use clap::{Args, Command};
use clap_complete::Shell;

use crate::cli::shared::write;

/// Print shell completions
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

pub fn run(arguments: &Completions, mut command: Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "limiter", &mut text);
    Ok(write(&String::from_utf8(text)?)?)
}
