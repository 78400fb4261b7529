//! The command line: raw arguments → validated ones → one file a verb.
//!
//! Exit status: 0 done or so already, 1 it failed, 2 the command line is wrong.

mod agent;
mod args;
mod attach;
mod check;
mod complete;
mod demo;
mod detach;
mod doctor;
mod export;
mod file;
mod frames;
mod interfaces;
mod keep;
mod keeper;
mod learn;
mod limiting;
mod lists;
mod log;
mod manual;
mod output;
mod replay;
mod reset;
mod set;
mod shares;
mod ssh;
mod status;
mod top;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::config::lists::{ALLOW, DENY};
use args::{Cli, ConfigVerb, Verb};

/// Reads the command line, does what it says, and tells how it went.
#[must_use]
pub fn main() -> ExitCode {
    if keeper::is_one(std::env::args_os()) {
        return finish(keeper::run());
    }
    if let Some(status) = complete::answer() {
        return status;
    }
    match Cli::try_parse_from(interfaces::all_as_operand(std::env::args_os())) {
        Ok(cli) => {
            output::be_strict(cli.strict);
            finish(run(cli.verb))
        }
        Err(error) => output::wrong_command_line(error),
    }
}

fn finish(work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(()) => output::status(),
        Err(error) => output::failure(&error),
    }
}

async fn run(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Attach(arguments) => attach::run(arguments).await,
        Verb::Keep(arguments) => keep::run(arguments).await,
        Verb::Detach(arguments) => detach::run(arguments).await,
        Verb::Status(arguments) => status::run(arguments).await,
        Verb::Set(arguments) => set::run(arguments).await,
        Verb::Reload(arguments) => file::reload(arguments).await,
        Verb::Allow { verb } => lists::run(ALLOW, verb).await,
        Verb::Deny { verb } => lists::run(DENY, verb).await,
        Verb::Tier { verb } => lists::run_tier(verb).await,
        Verb::Config { verb } => match verb {
            ConfigVerb::Check { file } => file::check(&file).await,
            ConfigVerb::Show { on } => interfaces::each(&on.interfaces, file::show).await,
        },
        Verb::Check(arguments) => check::run(arguments).await,
        Verb::Reset(arguments) => reset::run(arguments).await,
        Verb::Top(arguments) => top::run(arguments).await,
        Verb::Watch(arguments) => watch::run(arguments).await,
        Verb::Log(arguments) => log::run(arguments).await,
        Verb::Export(arguments) => export::run(arguments).await,
        Verb::Replay(arguments) => replay::run(&arguments),
        Verb::Learn(arguments) => learn::run(arguments).await,
        Verb::Doctor(arguments) => doctor::run(arguments).await,
        Verb::Agent(arguments) => agent::run(arguments).await,
        Verb::Demo(arguments) => demo::run(arguments).await,
        Verb::Completions { shell } => complete::script(shell),
        Verb::Man(arguments) => manual::run(&arguments),
    }
}
