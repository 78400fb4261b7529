//! Printing: to a pipe that may be closed, and errors in one line.

use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{config::escape, kernel};

/// The command line was understood, but makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Whether the exit status is 1 although the command came to its end: a change could not be printed, or `--strict` and there
/// was nothing to change.
static FAILED: AtomicBool = AtomicBool::new(false);
/// `--strict`.
static STRICT: AtomicBool = AtomicBool::new(false);

/// What a change has done, in words.
#[derive(Debug)]
pub struct Outcome {
    /// Whether there was nothing to change, for all or a part of what was asked.
    pub unchanged: bool,
    /// The result.
    pub text: String,
    /// What is good to know beside it.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Prints it.
    pub fn tell(&self, interface: &str) {
        outcome(self.unchanged, &format!("{interface}: {}\n", self.text));
        self.notes.iter().for_each(|text| note(text));
    }
}

/// Makes a failure of what has nothing to change, and of warnings.
pub fn be_strict(strict: bool) {
    STRICT.store(strict, Ordering::Relaxed);
}

/// Whether `--strict` is in force.
pub fn is_strict() -> bool {
    STRICT.load(Ordering::Relaxed)
}

/// Prints what a change has done, or that there was nothing to change: with `--strict` a failure, on standard error.
pub fn outcome(unchanged: bool, text: &str) {
    if unchanged && is_strict() {
        FAILED.store(true, Ordering::Relaxed);
        text.lines().for_each(note);
    } else {
        report(text);
    }
}

/// Prints for people: what does not print in a name is escaped.
pub fn print(text: &str) -> io::Result<()> {
    write(&escape(text, |c| c == '\n'))
}

/// Prints what a change has done. The change is in force already, and the command goes on: where standard output cannot
/// be written, standard error says so, and the exit status is 1 in the end.
pub fn report(text: &str) {
    let Err(error) = print(text) else { return };
    // The reader of a pipe that was closed had enough.
    if error.kind() == ErrorKind::BrokenPipe {
        return;
    }
    FAILED.store(true, Ordering::Relaxed);
    text.lines().for_each(note);
    note(&format!(
        "{error}; what is said above is in force: `limiter status` shows it"
    ));
}

/// The exit status of a command that has not failed.
pub fn status() -> ExitCode {
    ExitCode::from(u8::from(FAILED.load(Ordering::Relaxed)))
}

/// Writes text to standard output as it is, for programs or for a terminal.
pub fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| unwritten("standard output", error))
}

/// The error with what could not be written. A pipe that was closed stays what it is: see [`failure`].
pub fn unwritten(what: &str, error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::BrokenPipe => error,
        kind => io::Error::new(
            kind,
            format!("{what} cannot be written ({error}): write it elsewhere"),
        ),
    }
}

/// Prints a value as JSON, for programs.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut json = serde_json::to_string(value)?;
    json.push('\n');
    Ok(write(&json)?)
}

/// A line that is written over on a terminal, for as long as the work goes on; nothing elsewhere.
pub fn progress(length: Option<u64>, template: &str) -> ProgressBar {
    let bar = length.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Tells people something beside the result, on one line.
pub fn note(text: &str) {
    let text = escape(text, |_| false);
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "limiter: {text}");
}

/// Tells what went wrong, in one line, and gives the exit status. A pipe that was closed is no
/// failure: whoever reads had enough.
pub fn failure(error: &anyhow::Error) -> ExitCode {
    let pipe = error.downcast_ref::<io::Error>();
    if pipe.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    let line = format!("{error}").replace('\n', " ");
    note(&line);
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}

/// Help, version and errors are printed in clap's layout. What does not print in a wrong word is escaped.
pub fn wrong_command_line(mut error: clap::Error) -> ExitCode {
    use clap::error::{ContextKind, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand};

    // A closed pipe is no failure.
    if !error.use_stderr() || error.kind() == DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
    } else {
        // The advice to write an unknown option as a value is never what was meant.
        error.remove(ContextKind::Suggested);
        let text = error.render().to_string();
        let _ = io::stderr().write_all(escape(&text, |c| c == '\n').as_bytes());
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// A value that is invalid whatever the interface is a wrong command line.
pub fn usage(error: crate::config::Invalid) -> anyhow::Error {
    Usage(error.to_string()).into()
}

/// Adds the interface to an error that does not name it.
pub fn about(interface: &str, error: kernel::Error) -> anyhow::Error {
    match error {
        kernel::Error::Invalid(invalid) => anyhow::anyhow!("{interface}: {invalid}"),
        error => error.into(),
    }
}
