//! Printing to pipes that may be closed, and errors in one line.

use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
};

use limiter_config::escape;
use serde::Serialize;

use super::{
    at_once::{self, Text},
    descriptors, gathered, progress, secrets,
};
use crate::observe::{Changed, Interface, WithWarnings};

/// A command line that is well-formed, but contradicts itself.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// The exit status of a command that completed. 1: a change could not be printed, `--strict` was given and there was
/// nothing to change, or a capture is incomplete. [`DROPS`], [`FELL_BACK`] and [`UNUSUAL`] are the others.
static STATUS: AtomicU8 = AtomicU8::new(0);
static STRICT: AtomicBool = AtomicBool::new(false);

/// The exit status of `replay --fail-on-drops` if a packet is dropped.
pub const DROPS: u8 = 3;

/// The exit status of `attach --or-last` if the last configuration is in force, not that of the file.
pub const FELL_BACK: u8 = 4;

/// The exit status of `explain --save` if nothing is saved, because the traffic is not ordinary.
pub const UNUSUAL: u8 = 5;

/// Sets the exit status of a command that completes nevertheless. The first one stays.
pub fn exit_with(status: u8) {
    let _ = STATUS.compare_exchange(0, status, Ordering::Relaxed, Ordering::Relaxed);
}

/// Sets `--strict`: unchanged settings and warnings become failures.
pub fn be_strict(strict: bool) {
    STRICT.store(strict, Ordering::Relaxed);
}

pub fn is_strict() -> bool {
    STRICT.load(Ordering::Relaxed)
}

/// The part of what was asked for that a command has changed on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    All,
    /// Some of it; the rest was there already.
    Part,
    /// None of it, because of `--dry-run`.
    DryRun,
    /// None of it, because there was nothing to change.
    Nothing,
}

impl Extent {
    /// The extent of a change that is made as a whole, unless there is nothing to change.
    pub fn of(unchanged: bool) -> Self {
        match unchanged {
            true => Self::Nothing,
            false => Self::All,
        }
    }
}

/// Prints the result of a change of `name`, an interface or a feed, in these lines. If there was nothing to change,
/// `--strict` makes this a failure, on standard error.
pub fn outcome(name: &str, extent: Extent, lines: &str) {
    let is_failure = is_strict() && matches!(extent, Extent::Part | Extent::Nothing);
    let named = || lines.lines().map(|line| format!("{name}: {line}"));
    if is_failure {
        exit_with(1);
        named().for_each(|line| warn(&line));
    }
    if gathered::gathers_changes() {
        keep_result(name, extent, lines, None);
    } else if !is_failure {
        report(&named().map(|line| line + "\n").collect::<String>());
    }
}

/// Prints that there was nothing to change on any interface. With `--strict`, this is a failure.
pub fn nothing_to_change(text: &str) {
    if is_strict() {
        exit_with(1);
        warn(text);
    } else if !gathered::gathers_changes() {
        report(&format!("{text}\n"));
    }
}

/// Prints an attachment that was made, as `text`, or with `--json` as `status`.
pub fn attached(status: Interface, text: &str, notes: &str) {
    if gathered::gathers_changes() {
        let name = status.name.clone();
        keep_result(
            &name,
            Extent::All,
            &format!("attached\n{notes}"),
            Some(status),
        );
    } else {
        report(text);
    }
}

fn keep_result(name: &str, extent: Extent, lines: &str, status: Option<Interface>) {
    let changed = Changed {
        name: name.to_owned(),
        changed: matches!(extent, Extent::All | Extent::Part),
        lines: lines.lines().map(str::to_owned).collect(),
        status,
    };
    if let Err(result) = at_once::keep(Text::Result(Box::new(changed))) {
        let _ = put(result);
    }
}

/// Prints for people: non-printing characters in names are escaped.
pub fn print(text: &str) -> io::Result<()> {
    write(&escape(text, |c| c == '\n'))
}

/// Prints the result of a change. The change is in force already: if standard output cannot be written, the command
/// continues, prints an error to standard error, and exits with status 1.
pub fn report(text: &str) {
    // A report has no error.
    if let Err(report) = at_once::keep(Text::Report(text.to_owned())) {
        let _ = put(report);
    }
}

/// Prints a text now.
pub fn put(text: Text) -> io::Result<()> {
    progress::aside(|| put_plain(text))
}

fn put_plain(text: Text) -> io::Result<()> {
    match text {
        Text::Answer(text) => put_out(&text),
        Text::Report(text) => {
            let printed = put_out(&escape(&text, |c| c == '\n'));
            in_force(printed, &text);
            Ok(())
        }
        Text::Result(changed) => {
            gathered::add(*changed);
            Ok(())
        }
        Text::Note(text) => {
            gathered::add_note(&text);
            put_note(&text);
            Ok(())
        }
    }
}

/// Reports that the result of a change could not be printed.
fn in_force(printed: io::Result<()>, text: &str) {
    // The reader of a closed pipe had read enough.
    if let Err(error) = printed
        && error.kind() != ErrorKind::BrokenPipe
    {
        exit_with(1);
        let why = format!("{error}; the change is in force: `limiter status` shows it");
        for line in text.lines().chain([&*why]) {
            // Not by `note`: a bar may be off the terminal for this already.
            let _ = put_plain(Text::Note(noted(line)));
        }
    }
}

/// Prints a line on standard error. If that is closed, the line is lost.
fn put_note(text: &str) {
    let line = format!("limiter: {}\n", escape(text, |_| false));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// The exit status of a command that completed.
pub fn status() -> ExitCode {
    ExitCode::from(STATUS.load(Ordering::Relaxed))
}

/// Writes text to standard output unchanged, for programs or for a terminal. The error of a closed pipe stays unchanged:
/// see [`failure`].
pub fn write(text: &str) -> io::Result<()> {
    match at_once::keep(Text::Answer(text.to_owned())) {
        Ok(()) => Ok(()),
        Err(answer) => put(answer),
    }
}

fn put_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => error,
        kind => io::Error::new(
            kind,
            format!("standard output cannot be written ({error}): write it elsewhere"),
        ),
    })
}

/// Prints one of many answers: JSON for programs, on one line, or text.
pub fn answer(
    json: bool,
    value: &impl Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    if json {
        return Ok(write(&(serde_json::to_string(value)? + "\n"))?);
    }
    Ok(print(&text())?)
}

/// Prints the whole answer to a question: JSON for programs, with the notes up to now, or text.
pub fn document(
    json: bool,
    document: &impl Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    let warnings = match json {
        true => [gathered::notes(), at_once::notes()].concat(),
        false => Vec::new(),
    };
    let document = WithWarnings { document, warnings };
    answer(json, &document, text)
}

/// Prints the document of a change, with its error, if `--json` asked for one.
pub fn finish(result: &anyhow::Result<()>) {
    if let Err(error) = result {
        gathered::add_error(secrets::hide(&one_line(error)));
    }
    if let Some(changes) = gathered::finish() {
        let text = serde_json::to_string(&changes).unwrap_or_default() + "\n";
        progress::aside(|| in_force(put_out(&text), &text));
    }
}

/// The columns of the terminal that standard output is; none if it is none.
pub fn terminal_width() -> Option<usize> {
    let size = crossterm::terminal::size();
    let size = size.ok().filter(|_| io::stdout().is_terminal());
    size.map(|(columns, _)| columns.into())
}

/// Prints a note for the user on standard error, on one line. Secrets in URLs are hidden.
pub fn note(text: &str) {
    if let Err(note) = at_once::keep(Text::Note(noted(text))) {
        let _ = put(note);
    }
}

/// Prints a note now, although other interfaces come first: it must be read before the change.
pub fn warn(text: &str) {
    let _ = put(Text::Note(noted(text)));
}

/// Prints the error of one of several interfaces, on one line.
pub fn note_error(error: &anyhow::Error) {
    let text = noted(&one_line(error));
    put_note(&text);
    gathered::add_error(text);
}

fn noted(text: &str) -> String {
    let text = secrets::hide(text);
    match descriptors::advice(&text) {
        Some(advice) if !text.contains(advice) => format!("{text}; {advice}"),
        _ => text,
    }
}

fn one_line(error: &anyhow::Error) -> String {
    format!("{error}").replace('\n', " ")
}

/// Prints the error, in one line, and returns the exit status. A closed pipe is no failure: its reader had read
/// enough.
pub fn failure(error: &anyhow::Error) -> ExitCode {
    let pipe = error.downcast_ref::<io::Error>();
    if pipe.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    put_note(&noted(&one_line(error)));
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}

/// Prints help, version and errors in clap's layout, with a tip of `add_tip`. Non-printing characters in a wrong word are
/// escaped, and secrets hidden.
pub fn wrong_command_line(
    mut error: clap::Error,
    command: clap::Command,
    add_tip: impl FnOnce(&mut clap::Error),
) -> ExitCode {
    use clap::error::{ContextKind, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand};

    // A closed pipe is no failure.
    if !error.use_stderr() || error.kind() == DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
    } else {
        // The advice to write an unknown option as a value is never useful.
        error.remove(ContextKind::Suggested);
        add_tip(&mut error);
        secrets::hide_value(&mut error, command);
        let text = secrets::hide(&error.render().to_string());
        let _ = io::stderr().write_all(escape(&text, |c| c == '\n').as_bytes());
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Makes a value that is invalid on every interface a wrong command line.
pub fn usage(error: limiter_config::Invalid) -> anyhow::Error {
    Usage(error.to_string()).into()
}

/// Adds the interface to an error that does not name it.
pub fn about(interface: &str) -> impl Fn(limiter_kernel::Error) -> anyhow::Error {
    move |error| match error {
        limiter_kernel::Error::Invalid(invalid) => anyhow::anyhow!("{interface}: {invalid}"),
        error => error.into(),
    }
}
