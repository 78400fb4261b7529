//! The results of a command that changes something, for programs.

use serde::Serialize;

use super::Interface;

/// The output of `--json` of commands that change something. It is printed after a failure too.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Changes {
    /// The results, in order. An interface that failed has an error instead.
    pub results: Vec<Changed>,
    /// Warnings and notes, which are on standard error too.
    pub warnings: Vec<String>,
    /// Errors, which are on standard error too. Then the exit status is not 0.
    pub errors: Vec<String>,
}

/// The result on one interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Changed {
    /// Name of the interface, or of the feed.
    pub name: String,
    /// False if there was nothing to change, or with `--dry-run`.
    pub changed: bool,
    /// The result in words.
    pub lines: Vec<String>,
    /// The attachment, as `status --json` shows it; only of `attach`, if it was not attached before.
    pub status: Option<Interface>,
}

/// A document with the warnings and notes about it, which are on standard error too.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WithWarnings<T> {
    /// The document.
    #[serde(flatten)]
    pub document: T,
    /// Warnings and notes, which are on standard error too.
    pub warnings: Vec<String>,
}
