//! Checks the documents against the command line: `docs/reference` is made of its definitions, and every command in a
//! console block is a command line.

use std::{fmt::Write, fs, path::Path};

use clap::{Arg, Command, Parser};
use limiter_common::policy::verdict::{Reason, Verdict};
use limiter_config::{file::TABLES, reader::Keyed};
use limiter_feed::Settings as Feed;

use super::{Cli, GROUPS, definition, man::examples};
use crate::documents::{compare, schema};
use crate::notify::event::Event;

const COMMANDS: &str = "\
# Commands

The help that `limiter help VERB` prints, and examples. Every verb also takes `--strict`: exit status 1 if there is
nothing to change, or if a configuration file has warnings.
";

const FILE: &str = "\
# Configuration file

Made from the definitions that read the file; `man limiter.toml` prints the same. A key that is not named here is a
mistake, and a file with a mistake changes nothing. The [cookbook](../cookbook.md) has whole files. The last table has
the keys of a [feed](../feeds.md), whose file is read in the same way.
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

/// The help of a verb and of the verbs within it, and its examples.
fn section(verb: &Command, depth: usize) -> String {
    const OF_ALL: [&str; 2] = ["help", "strict"];
    let name = verb.get_bin_name().unwrap_or_default().to_owned();
    let hidden = |argument: Arg| match OF_ALL.contains(&argument.get_id().as_str()) {
        true => argument.hide(true),
        false => argument,
    };
    let help = verb
        .clone()
        .mut_args(hidden)
        .term_width(100)
        .render_long_help();
    let help = help.to_string();
    let help: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
    let (marks, help) = ("#".repeat(depth), help.join("\n"));
    let mut text = format!("\n{marks} {name}\n\n```text\n{help}\n```\n");
    let inner = verb.get_subcommands();
    for inner in inner.filter(|inner| inner.get_name() != "help") {
        text += &section(inner, depth + 1);
    }
    let lines: Vec<_> = examples(verb.get_name()).collect();
    let is_command = |line: &str| line.starts_with(' ');
    for example in lines.chunk_by(|_, next| is_command(next)) {
        if let ([task, commands @ ..], 3) = (example, depth) {
            let commands: Vec<_> = commands.iter().map(|line| line.trim()).collect();
            let _ = write!(text, "\n{task}\n\n```sh\n{}\n```\n", commands.join("\n"));
        }
    }
    text
}

#[test]
fn command_reference_matches_the_program() {
    let mut command = definition();
    command.build();
    let mut page = COMMANDS.to_owned();
    for (group, verbs) in GROUPS {
        let _ = write!(page, "\n## {group}\n");
        for verb in verbs.split(' ') {
            page += &section(command.find_subcommand(verb).unwrap(), 3);
        }
    }
    compare("reference/commands.md", &page);
}

#[test]
fn key_reference_matches_the_file_keys() {
    let mut page = FILE.to_owned();
    for table in TABLES.iter().chain([&Feed::KEYS]) {
        let title = table.table.trim_start_matches('[').trim_end_matches(']');
        let _ = write!(
            page,
            "\n## Keys of {title}\n\nWritten {}.\n\n| key | meaning |\n|---|---|\n",
            table.place
        );
        for known in table.all() {
            let _ = writeln!(page, "| `{}` | {} |", known.key, cell(&known.meaning()));
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

#[test]
fn schema_of_notify_matches_its_events() {
    compare("schema/notify.json", &schema::<Event>());
}
