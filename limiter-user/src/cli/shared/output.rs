//! Printing to pipes that may be closed, and errors in one line.

use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
};

use limiter_config::escape;

use super::{
    at_once::{self, Text},
    descriptors, progress, secrets,
};

/// A command line that is well-formed, but contradicts itself.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// The exit status of a command that completed. 1: a change could not be printed, `--strict` was given and there was
/// nothing to change, or a capture is incomplete. [`DROPS`] and [`FELL_BACK`] are the others.
static STATUS: AtomicU8 = AtomicU8::new(0);
static STRICT: AtomicBool = AtomicBool::new(false);

/// The exit status of `replay --fail-on-drops` if a packet is dropped.
pub const DROPS: u8 = 3;

/// The exit status of `attach --or-last` if the last configuration is in force, not that of the file.
pub const FELL_BACK: u8 = 4;

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

/// Prints the result of a change. If it changed nothing, `--strict` makes this a failure, on standard error.
pub fn outcome(unchanged: bool, text: &str) {
    if unchanged && is_strict() {
        exit_with(1);
        text.lines().for_each(note);
    } else {
        report(text);
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
            // The reader of a closed pipe had read enough.
            if let Err(error) = printed
                && error.kind() != ErrorKind::BrokenPipe
            {
                exit_with(1);
                let lines = text.lines().map(noted);
                let why = format!("{error}; the change is in force: `limiter status` shows it");
                for line in lines.chain([noted(&why)]) {
                    let _ = put_plain(line);
                }
            }
            Ok(())
        }
        Text::Note(line) => {
            // If standard error is closed, the note is lost.
            let _ = io::stderr().write_all(line.as_bytes());
            Ok(())
        }
    }
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

/// Prints the answer to a question: JSON for programs, or text.
pub fn answer(
    json: bool,
    value: &impl serde::Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    if json {
        return Ok(write(&(serde_json::to_string(value)? + "\n"))?);
    }
    Ok(print(&text())?)
}

/// The columns of the terminal that standard output is; none if it is none.
pub fn terminal_width() -> Option<usize> {
    let size = crossterm::terminal::size();
    let size = size.ok().filter(|_| io::stdout().is_terminal());
    size.map(|(columns, _)| columns.into())
}

/// Prints a note for the user on standard error, on one line. Secrets in URLs are hidden.
pub fn note(text: &str) {
    if let Err(note) = at_once::keep(noted(text)) {
        let _ = put(note);
    }
}

/// Prints a note now, although other interfaces come first: it must be read before the change.
pub fn warn(text: &str) {
    let _ = put(noted(text));
}

fn noted(text: &str) -> Text {
    let mut text = escape(&secrets::hide(text), |_| false);
    if let Some(advice) = descriptors::advice(&text)
        && !text.contains(advice)
    {
        text = format!("{text}; {advice}");
    }
    Text::Note(format!("limiter: {text}\n"))
}

/// Prints the error, in one line, and returns the exit status. A closed pipe is no failure: its reader had read
/// enough.
pub fn failure(error: &anyhow::Error) -> ExitCode {
    let pipe = error.downcast_ref::<io::Error>();
    if pipe.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    let line = format!("{error}").replace('\n', " ");
    note(&line);
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
