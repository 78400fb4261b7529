//! Checks the documents against the command line: `docs/reference` is made of its definitions, and every command in a
//! console block is a command line.

use std::{cmp::Reverse, fmt::Write, fs, path::Path};

use clap::{Arg, Command, CommandFactory, Parser};
use limiter_common::policy::verdict::{Reason, Verdict};

use super::{Cli, GROUPS, man::examples};
use crate::{config::file::TABLES, documents::compare};

const COMMANDS: &str = "\
# Commands

Made from the definitions of the command line. `limiter help VERB` prints the same, `man limiter-VERB` too. Every verb
also takes `--strict`: exit status 1 if there is nothing to change, or if a configuration file has warnings.

Several verbs take these arguments; under each verb, \"Also\" names them.

| argument | meaning |
|---|---|
";

const FILE: &str = "\
# Configuration file

Made from the definitions that read the file; `man limiter.toml` prints the same. A key that is not named here is a
mistake, and a file with a mistake changes nothing. The [cookbook](../cookbook.md) has whole files.
";

const REASONS: &str = "\
# Reasons

Each packet is counted under one reason, which JSON, metrics and `limiter watch` name. Made from the program's table.

| reason | text | verdict |
|---|---|---|
";

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// An argument as it is typed, and its help with default and possible values.
fn row(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default().iter();
    let names: Vec<_> = names.map(ToString::to_string).collect();
    let mut typed = match argument.get_long() {
        Some(long) => format!("--{long} "),
        None => String::new(),
    };
    if let Some(short) = argument.get_short() {
        typed = format!("-{short}, {typed}");
    }
    if argument.get_action().takes_values() {
        typed += &names.join(" ");
    }
    let help = argument.get_long_help().or(argument.get_help());
    let mut meaning = help.map(ToString::to_string).unwrap_or_default();
    let values = argument.get_possible_values();
    let values: Vec<_> = values.iter().map(|value| value.get_name()).collect();
    if argument.get_action().takes_values() && !values.is_empty() {
        let _ = write!(meaning, ": `{}`", values.join("`, `"));
    }
    let defaults = argument.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(meaning, " (default: `{}`)", defaults.join(","));
    }
    format!("| `{}` | {} |\n", cell(typed.trim_end()), cell(&meaning))
}

/// An argument that this many verbs take is described once.
const COMMON: usize = 3;

/// The rows of all arguments of a verb.
fn rows(verb: &Command) -> Vec<String> {
    let is_own = |argument: &&Arg| {
        !argument.is_hide_set()
            && !["help", "strict", "version"].contains(&argument.get_id().as_str())
    };
    verb.get_arguments().filter(is_own).map(row).collect()
}

/// Adds the rows of a verb and of the verbs within it.
fn count(verb: &Command, counts: &mut Vec<(String, usize)>) {
    for row in rows(verb) {
        match counts.iter_mut().find(|(other, _)| *other == row) {
            Some((_, count)) => *count += 1,
            None => counts.push((row, 1)),
        }
    }
    let inner = verb.get_subcommands();
    inner
        .filter(|inner| inner.get_name() != "help")
        .for_each(|inner| count(inner, counts));
}

/// The section of a verb, or of a verb within a verb. `common` are the rows that are described elsewhere.
fn section(verb: &Command, common: &[String], depth: usize) -> String {
    let name = verb.get_bin_name().unwrap_or_default().to_owned();
    let about = verb.get_long_about().or(verb.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let about = about.trim_end_matches('.').replace("\n\n", ".\n\n");
    let mut text = format!("\n{} {name}\n\n{about}.\n", "#".repeat(depth));
    if !verb.has_subcommands() {
        let usage = verb.clone().render_usage().to_string();
        let _ = write!(text, "\n`{}`\n", usage.trim_start_matches("Usage: "));
    }
    let (also, own): (Vec<_>, Vec<_>) =
        rows(verb).into_iter().partition(|row| common.contains(row));
    if !own.is_empty() {
        text += &format!("\n| argument | meaning |\n|---|---|\n{}", own.concat());
    }
    let also: Vec<_> = also
        .iter()
        .filter_map(|row| row.split('`').nth(1))
        .collect();
    if !also.is_empty() {
        let _ = write!(text, "\nAlso `{}`.\n", also.join("`, `"));
    }
    for inner in verb.get_subcommands() {
        if inner.get_name() != "help" {
            text += &section(inner, common, depth + 1);
        }
    }
    for (task, lines) in examples(verb.get_name()) {
        if depth == 3 {
            let _ = write!(text, "\n{task}\n\n```sh\n{}\n```\n", lines.join("\n"));
        }
    }
    text
}

#[test]
fn command_reference_matches_the_program() {
    let mut command = Cli::command();
    command.build();
    let mut counts = Vec::new();
    for verb in GROUPS.iter().flat_map(|(_, verbs)| verbs.iter()) {
        count(command.find_subcommand(verb).unwrap(), &mut counts);
    }
    // Of the meanings of one name, as of `IFACE`, the most frequent.
    let typed = |row: &str| row.split('`').nth(1).map(str::to_owned);
    counts.sort_by_key(|(row, count)| (typed(row), Reverse(*count)));
    counts.dedup_by_key(|(row, _)| typed(row));
    counts.retain(|(_, count)| *count >= COMMON);
    let common: Vec<_> = counts.into_iter().map(|(row, _)| row).collect();
    let mut page = COMMANDS.to_owned() + &common.concat();
    for (group, verbs) in GROUPS {
        let _ = write!(page, "\n## {group}\n");
        for verb in verbs {
            page += &section(command.find_subcommand(verb).unwrap(), &common, 3);
        }
    }
    compare("reference/commands.md", &page);
}

#[test]
fn key_reference_matches_the_file_keys() {
    let mut page = FILE.to_owned();
    for table in TABLES {
        let title = table.table.trim_start_matches('[').trim_end_matches(']');
        let _ = write!(
            page,
            "\n## Keys of {title}\n\nWritten {}.\n\n| key | meaning |\n|---|---|\n",
            table.place
        );
        for (key, meaning) in table.meanings() {
            let _ = writeln!(page, "| `{key}` | {} |", cell(meaning));
        }
    }
    compare("reference/file.md", &page);
}

#[test]
fn reason_reference_matches_the_program() {
    let mut page = REASONS.to_owned();
    for reason in Reason::ALL {
        let verdict = match reason.verdict() {
            Verdict::Admit => "passed, charged to every limit that matches",
            Verdict::Pass => "passed, not charged",
            Verdict::Shadow => "passed because of shadow",
            Verdict::Refuse => "dropped by a limit",
            Verdict::Drop => "dropped before any limit",
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {verdict} |",
            reason.name(),
            reason.text()
        );
    }
    compare("reference/reasons.md", &page);
}

#[test]
fn every_command_in_the_documents_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["", "docs", "docs/bench"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let files = folders
        .into_iter()
        .flatten()
        .map(|file| file.unwrap().path());
    let mut commands = 0;
    for file in files.filter(|file| file.extension().is_some_and(|end| end == "md")) {
        let text = fs::read_to_string(&file).unwrap();
        for line in commands_of(&text) {
            let read = Cli::try_parse_from(line.split_whitespace());
            let fails = read.err().filter(clap::Error::use_stderr);
            assert!(
                fails.is_none(),
                "{}: {line}: {}",
                file.display(),
                fails.unwrap()
            );
            commands += 1;
        }
    }
    assert!(commands > 50, "only {commands} commands were found");
}

/// Lines of code blocks for a shell that call limiter: without `sudo`, pipes, redirections and comments.
fn commands_of(text: &str) -> impl Iterator<Item = String> {
    let mut is_shell = false;
    let lines = text
        .lines()
        .filter(move |line| match line.strip_prefix("```") {
            Some(language) => {
                is_shell = ["sh", "console"].contains(&language);
                false
            }
            None => is_shell,
        });
    lines.filter_map(|line| {
        let line = line.trim_start_matches("$ ").trim_start_matches("sudo ");
        let line = line.split([';', '|', '>', '&', '#']).next()?;
        line.starts_with("limiter ")
            .then(|| line.replace(['\'', '"'], ""))
    })
}
