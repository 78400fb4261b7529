//! The command line. Each verb has a file with its arguments, its help and its work. `shared` has code of several
//! verbs.
//!
//! Exit status: 0 done or unchanged, 1 failed, 2 the command line is wrong, 3 `replay --fail-on-drops` found drops, 4
//! `attach --or-last` had to take the last configuration, 5 `explain --save` saved nothing, because the traffic is not
//! ordinary.

#[cfg(test)]
mod reference;

mod fleet {
    pub mod agent;
    #[cfg(feature = "fleet")]
    mod run_agent;
}
mod limit {
    pub mod adapt;
    pub mod attach;
    pub mod detach;
    mod dialog;
    pub mod editor;
    mod fall_back;
    pub mod keep;
    pub mod one;
    pub mod reload;
    pub mod reset;
    pub mod set;
    mod together;
    mod workshop;
}
mod lists {
    pub mod ban;
    mod ban_notes;
    pub mod bans;
    pub mod by_fleet;
    pub mod cut_off;
    pub mod edit;
    pub mod feed;
    mod given;
    pub mod unban;
}
mod observe {
    pub mod check;
    pub mod connections;
    pub mod export;
    pub mod history;
    pub mod log;
    pub mod notify;
    pub mod status;
    pub mod top;
    pub mod watch;
}
mod other {
    pub mod completions;
    pub mod deeds;
    pub mod helper;
    pub mod man;
    pub mod preset;
}
mod plan {
    pub mod config;
    pub mod doctor;
    pub mod explain;
    pub mod learn;
    pub mod replay;
}
mod shared {
    pub mod at_once;
    pub mod by_exporter;
    pub mod captured;
    pub mod databases;
    pub mod descriptors;
    pub mod file;
    pub mod gathered;
    pub mod input;
    pub mod interfaces;
    pub mod interruption;
    pub mod lasting;
    pub mod limiting;
    pub mod output;
    pub mod progress;
    pub mod recording;
    pub mod secrets;
    pub mod ssh;
    pub mod values;
    pub mod windows;

    pub use by_exporter::by_exporter;
    pub use captured::note_capture;
    pub use databases::databases;
    pub use file::{
        as_json, read_for, refuse_warnings, warn_of_attached, warn_of_changed_meaning,
        warn_of_full_tables, warn_of_ineffective, warn_of_slow_tcp,
    };
    pub use gathered::ForPrograms;
    pub use interfaces::{On, OnOne, each, is_all, named, unique};
    pub use interruption::interruption;
    pub use lasting::{Lasting, note_stale_file, report_changes};
    pub use limiting::{Limiting, settings};
    pub use output::{
        Extent, Usage, about, answer, document, note, outcome, print, terminal_width, usage, write,
    };
    pub use progress::Progress;
    pub use recording::{keep_last, record, record_until};
    pub use ssh::{OwnSession, allow_first, own_session, warn_of_ban, warn_of_change};
    pub use values::{
        DAY, MINUTE, SECOND, YEAR, address, count, duration, file_size, interface, is_interface,
        prefix,
    };
    pub use windows::Windows;
}
mod typed {
    pub mod complete;
    pub mod operand_tips;
    pub mod operands;
    mod rephrase;
    pub mod tips;
    pub mod words;
}

use std::{ffi::OsString, fmt::Write, process::ExitCode};

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use tokio::runtime::Builder;

use fleet::agent;
use limit::{adapt, attach, detach, editor, keep, one, reload, reset, set};
use limiter_config::lists::{ALLOW, DENY};
use lists::{ban, bans, edit, feed, unban};
use observe::{check, connections, export, history, log, notify, status, top, watch};
pub use other::preset::FILES as PRESETS;
use other::{completions, deeds, helper, man, preset};
use plan::{config, doctor, explain, learn, replay};
use shared::{Progress, descriptors, input, interfaces::OnOne, output, recording};
use typed::{complete, tips, words};

/// The version, and what this build lacks.
const VERSION: &str = match cfg!(feature = "fleet") {
    true => env!("CARGO_PKG_VERSION"),
    false => concat!(env!("CARGO_PKG_VERSION"), " (without limiter agent)"),
};

/// A packet rate limiter in the Linux kernel: one exact token bucket for each source address,
/// enforced at the network driver by XDP.
#[derive(Debug, Parser)]
#[command(name = "limiter", version = VERSION, about, long_about = None, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 success, also if there was nothing to change; 1 failure, with --strict also if there was \
                  nothing to change; 2 wrong command line.\n\nIFACE may be left out where limiter is attached to one \
                  interface, except of detach. -i IFACE is understood too."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// Exit with status 1 if there is nothing to change, or if a file has warnings; for scripts
    #[arg(long, global = true)]
    strict: bool,
}

/// The groups of `limiter help`, with their verbs.
pub const GROUPS: [(&str, &str); 6] = [
    (
        "Limit",
        "attach set limit reload edit keep reset adapt detach",
    ),
    (
        "Observe",
        "status top watch log check connections history export notify",
    ),
    ("Lists", "allow deny tier ban unban bans feed"),
    ("Plan", "doctor learn explain replay config"),
    ("Fleet", "agent"),
    ("Other", "preset completions man"),
];

#[derive(Debug, Subcommand)]
enum Verb {
    Attach(attach::Attach),
    Set(set::Set),
    Limit(one::One),
    Reload(reload::Reload),
    Edit(editor::Edit),
    Keep(keep::Keep),
    Reset(reset::Reset),
    Adapt(adapt::Adapt),
    Detach(detach::Detach),
    Status(status::Status),
    Top(top::Top),
    Watch(watch::Watch),
    Log(log::Log),
    Check(check::Check),
    Connections(connections::Connections),
    History(history::History),
    Export(export::Export),
    Notify(notify::Notify),
    /// Edit the list of sources that pass before any limit
    #[command(subcommand)]
    Allow(edit::Verb<OnOne>),
    /// Edit the list of sources that are dropped before any limit
    #[command(subcommand)]
    Deny(edit::Verb<OnOne>),
    /// Edit a named list that limits match on
    #[command(subcommand)]
    Tier(edit::Verb<edit::Tier>),
    Ban(ban::Ban),
    Unban(unban::Unban),
    Bans(bans::Bans),
    Feed(feed::Feed),
    Doctor(doctor::Doctor),
    Learn(learn::Learn),
    Explain(explain::Explain),
    Replay(replay::Replay),
    /// Check a configuration file; print, compare, save the one in force
    #[command(subcommand)]
    Config(config::Verb),
    Agent(agent::Agent),
    Preset(preset::Preset),
    Completions(completions::Completions),
    Man(man::Manual),
}

impl Verb {
    /// The name of the work that may take long, if the verb does such work and shows no progress of its own. None while
    /// somebody may be typing.
    fn work(&self) -> Option<&'static str> {
        if input::may_be_typed(std::env::args_os()) {
            return None;
        }
        match self {
            Self::Attach(_) => Some("loading the program and its lists"),
            Self::Set(_) | Self::Limit(_) | Self::Reload(_) | Self::Keep(_) => {
                Some("replacing the program")
            }
            Self::Allow(_) | Self::Deny(_) | Self::Tier(_) => Some("working on the list"),
            Self::Ban(_) | Self::Unban(_) | Self::Bans(_) => Some("working on bans"),
            Self::Reset(_) => Some("looking for buckets"),
            Self::Detach(_) => Some("removing the program"),
            Self::Doctor(_) => Some("examining the host"),
            Self::Config(_) => Some("reading the configuration"),
            _ => None,
        }
    }
}

/// The definition of the command line.
fn definition() -> Command {
    words::describe(Cli::command())
}

/// The command line. Its help lists the verbs in groups, which clap has no option for.
pub fn command() -> Command {
    let command = definition();
    let heading = *command.get_styles().get_header();
    let name = *command.get_styles().get_literal();
    let mut verbs = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(verbs, "\n{heading}{group}:{heading:#}");
        for verb in names.split(' ') {
            let about = command.find_subcommand(verb).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(verbs, "  {name}{verb:<11}{name:#}  {about}");
        }
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{verbs}\n{heading}Options:{heading:#}\n{{options}}{{after-help}}"
    ))
}

/// Reads the command line, executes it, and reports the result.
pub fn main() -> ExitCode {
    if let Some(origin) = helper::origin(std::env::args_os()) {
        descriptors::raise();
        return finish(helper::run(origin));
    }
    if deeds::are_asked_for(std::env::args_os()) {
        descriptors::raise();
        return finish(deeds::run());
    }
    match complete::answer(definition) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => return wrong(error, &[]),
    }
    let given: Vec<_> = std::env::args_os().collect();
    let matches = words::parse(given.clone(), command);
    if let Ok(matches) = &matches {
        recording::name(matches.subcommand_name());
    }
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => {
            output::be_strict(cli.strict);
            // The program that `notify` starts inherits the limit.
            if !matches!(cli.verb, Verb::Notify(_)) {
                descriptors::raise();
            }
            let _progress = cli.verb.work().map(Progress::of_work);
            finish(run(cli.verb))
        }
        Err(error) => wrong(error, &given),
    }
}

/// Reports a wrong command line, with a tip about the verb that it has.
fn wrong(error: clap::Error, given: &[OsString]) -> ExitCode {
    let verb = words::verb(given, &definition());
    output::wrong_command_line(error, definition(), |error| {
        tips::add(error, verb.as_deref())
    })
}

fn finish(work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let run = || {
        descriptors::check()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let result = runtime.block_on(work);
        output::finish(&result);
        // An agent that was told to end does not wait for a change of lists: it is safe against `kill`.
        runtime.shutdown_background();
        result
    };
    match run() {
        Ok(()) => output::status(),
        Err(error) => output::failure(&error),
    }
}

async fn run(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Attach(arguments) => attach::run(arguments).await,
        Verb::Set(arguments) => set::run(arguments).await,
        Verb::Limit(arguments) => one::run(arguments).await,
        Verb::Reload(arguments) => reload::run(arguments).await,
        Verb::Edit(arguments) => editor::run(arguments).await,
        Verb::Keep(arguments) => keep::run(arguments).await,
        Verb::Reset(arguments) => reset::run(arguments).await,
        Verb::Adapt(arguments) => adapt::run(arguments).await,
        Verb::Detach(arguments) => detach::run(arguments).await,
        Verb::Status(arguments) => status::run(arguments).await,
        Verb::Top(arguments) => top::run(arguments).await,
        Verb::Watch(arguments) => watch::run(arguments).await,
        Verb::Log(arguments) => log::run(arguments).await,
        Verb::Check(arguments) => check::run(arguments).await,
        Verb::Connections(arguments) => connections::run(arguments).await,
        Verb::History(arguments) => history::run(arguments).await,
        Verb::Export(arguments) => export::run(arguments).await,
        Verb::Notify(arguments) => notify::run(arguments).await,
        Verb::Allow(verb) => edit::run(ALLOW, verb).await,
        Verb::Deny(verb) => edit::run(DENY, verb).await,
        Verb::Tier(verb) => edit::run_tier(verb).await,
        Verb::Ban(arguments) => ban::run(arguments).await,
        Verb::Unban(arguments) => unban::run(arguments).await,
        Verb::Bans(arguments) => bans::run(arguments).await,
        Verb::Feed(arguments) => feed::run(arguments).await,
        Verb::Doctor(arguments) => doctor::run(arguments).await,
        Verb::Learn(arguments) => learn::run(arguments).await,
        Verb::Explain(arguments) => explain::run(arguments).await,
        Verb::Replay(arguments) => replay::run(&arguments),
        Verb::Config(verb) => config::run(verb).await,
        Verb::Agent(arguments) => agent::run(arguments).await,
        Verb::Preset(arguments) => preset::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments),
        Verb::Man(arguments) => man::run(&arguments, definition()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Cli, GROUPS, man::examples};

    #[test]
    fn every_verb_is_in_one_group_and_fits_a_line() {
        let grouped = GROUPS.iter().flat_map(|(_, verbs)| verbs.split(' '));
        let command = Cli::command();
        let verbs = command.get_subcommands().map(clap::Command::get_name);
        assert!(
            grouped.eq(verbs),
            "the order of `Verb` and of `GROUPS` differ"
        );
        for verb in command.get_subcommands() {
            let about = verb.get_about().unwrap().to_string();
            assert!(about.len() <= 80 - 15, "{}: {about}", verb.get_name());
        }
    }

    #[test]
    fn every_verb_has_help_and_examples() {
        for verb in Cli::command().get_subcommands() {
            let name = verb.get_name();
            assert!(verb.get_about().is_some(), "{name}");
            assert!(examples(name).next().is_some(), "{name}");
        }
    }

    #[test]
    fn every_example_parses_and_belongs_to_its_verb() {
        let verbs = Cli::command();
        let verbs = verbs.get_subcommands().map(clap::Command::get_name);
        for verb in std::iter::once("limiter").chain(verbs) {
            for line in examples(verb).filter_map(|line| line.strip_prefix("    ")) {
                let read = Cli::try_parse_from(line.split(' '));
                assert!(read.is_ok(), "{line}: {}", read.unwrap_err());
                let is_of_verb = verb == "limiter" || line.split(' ').nth(1) == Some(verb);
                assert!(is_of_verb, "{line}: no example of {verb}");
            }
        }
    }
}
