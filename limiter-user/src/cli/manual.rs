//! `limiter completions` and `limiter man`: made from the definition of the command line.

use clap::CommandFactory;

use crate::cli::{
    args::Cli,
    output::{Usage, write},
};

/// Completions for a shell.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "limiter", &mut text);
    Ok(write(&String::from_utf8(text)?)?)
}

/// The manual page, of the whole command or of one verb.
pub fn page(verb: Option<&str>) -> anyhow::Result<()> {
    let mut command = Cli::command();
    command.build();
    let command = match verb {
        None => command,
        Some(verb) => command
            .find_subcommand(verb)
            .ok_or_else(|| {
                Usage(format!(
                    "'{verb}' is no verb of limiter: `limiter --help` lists them"
                ))
            })?
            .clone()
            .display_name(format!("limiter-{verb}")),
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    Ok(write(&String::from_utf8(text)?)?)
}
