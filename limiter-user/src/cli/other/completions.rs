//! `limiter completions`, and the values that shells complete: a shell runs `limiter` itself, with [`VARIABLE`] set.

use std::{env, process::ExitCode};

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::{ArgValueCandidates, CompleteEnv, CompletionCandidate, Shell, env::Shells};

use crate::{
    cli::shared::output::write,
    config::{
        Settings,
        lists::{ALLOW, DENY},
    },
    kernel::{Attachment, sys::interface},
};

/// The environment variable that names the asking shell.
const VARIABLE: &str = "LIMITER_COMPLETE";

/// Verbs that complete all interfaces, not only those that limiter is attached to.
const OF_ANY_INTERFACE: [&str; 3] = ["attach", "learn", "doctor"];

/// Print shell completions
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Answers a shell that asks for values; `None` if no shell does. Errors are not printed, because the answer appears
/// on the line that the user types.
pub fn answer(command: fn() -> Command) -> Option<ExitCode> {
    let complete = CompleteEnv::with_factory(|| with_values(command())).var(VARIABLE);
    match complete.try_complete(env::args_os(), env::current_dir().ok().as_deref()) {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Prints the script that makes a shell ask.
pub fn run(arguments: &Completions) -> anyhow::Result<()> {
    let shell = arguments.shell;
    let mut text = Vec::new();
    Shells::builtins()
        .completer(&shell.to_string())
        .context("there are no completions for this shell: write bash, zsh or fish")?
        .write_registration(VARIABLE, "limiter", "limiter", "limiter", &mut text)?;
    let mut text = String::from_utf8(text)?;
    if shell == Shell::Zsh {
        // If the script is installed as a function, its first run must complete too.
        text += "if [ \"$funcstack[1]\" = _limiter ]; then _clap_dynamic_completer_limiter \"$@\"; fi\n";
    }
    Ok(write(&text)?)
}

/// The command, with completions for the values of its arguments.
fn with_values(command: Command) -> Command {
    let of_any = OF_ANY_INTERFACE.contains(&command.get_name());
    let command = command.mut_args(|argument| {
        let values: fn() -> Vec<CompletionCandidate> = match argument.get_id().as_str() {
            "interface" | "interfaces" if of_any => interfaces,
            "interface" | "interfaces" => attached,
            "limit" => limits,
            "name" => lists,
            _ => return argument,
        };
        argument.add(ArgValueCandidates::new(values))
    });
    command.mut_subcommands(with_values)
}

fn interfaces() -> Vec<CompletionCandidate> {
    let all = wait(interface::all()).into_iter().flatten();
    all.map(|interface| interface.name.into()).collect()
}

fn attached() -> Vec<CompletionCandidate> {
    let of = attachments().into_iter();
    of.map(|attachment| attachment.interface.name.into())
        .collect()
}

fn limits() -> Vec<CompletionCandidate> {
    let limits = settings().flat_map(|settings| settings.limits);
    limits.map(|limit| limit.name.into()).collect()
}

/// Names of tiers only: `allow` and `deny` are verbs.
fn lists() -> Vec<CompletionCandidate> {
    let mut lists = Vec::new();
    for settings in settings() {
        let named = settings.lists.all().map(|(name, _)| name);
        let named = named.filter(|name| ![ALLOW, DENY].contains(name));
        lists.extend(named.map(|name| name.to_owned().into()));
    }
    lists
}

/// The settings on the interfaces that the command line names; on all, if it names none.
fn settings() -> impl Iterator<Item = Settings> {
    let mut attachments = attachments();
    let named = |attachment: &Attachment| env::args().any(|word| word == attachment.interface.name);
    if attachments.iter().any(named) {
        attachments.retain(named);
    }
    attachments
        .into_iter()
        .filter_map(|attachment| attachment.settings().ok())
}

/// All attachments; none for a user who may not see them.
fn attachments() -> Vec<Attachment> {
    wait(Attachment::all()).map_or_else(Vec::new, |(attachments, _)| attachments)
}

fn wait<T>(work: impl Future<Output = crate::kernel::error::Result<T>>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.ok()?.block_on(work).ok()
}
