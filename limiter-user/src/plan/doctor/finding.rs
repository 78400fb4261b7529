//! Findings of `doctor`: their shape in JSON, and how they are made.

use clap::ValueEnum;
use limiter_kernel::Error;
use serde::Serialize;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// Name of the check: one word.
    pub check: &'static str,
    /// Severity of the finding.
    pub level: Level,
    /// The result.
    pub found: String,
    /// Advice; none if there is nothing to do.
    pub advice: Option<String>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing to do.
    Ok,
    /// Limiting works, but could work better.
    Warning,
    /// `attach` fails, or nothing would be limited.
    Problem,
}

/// The mode that `attach --mode auto` is expected to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Native mode: in the driver.
    Native,
    /// Generic mode: in the network stack.
    Generic,
    /// Mode tc: in the network stack, without XDP.
    Tc,
    /// Unknown: only `attach` can tell.
    Unknown,
}

/// Creates a finding without a check's name.
pub(super) fn ok(found: impl Into<String>) -> Finding {
    Finding {
        check: "",
        level: Level::Ok,
        found: found.into(),
        advice: None,
    }
}

pub(super) fn warning(found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding {
        level: Level::Warning,
        advice: Some(advice.into()),
        ..ok(found)
    }
}

pub(super) fn problem(found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding {
        level: Level::Problem,
        ..warning(found, advice)
    }
}

/// Creates a finding from an error. The text after the error's last colon is the advice.
pub(super) fn error(error: &Error) -> Finding {
    let text = error.to_string();
    match text.rsplit_once(": ") {
        Some((found, advice)) => problem(found, advice),
        None => problem(text, "`limiter attach` fails for the same reason"),
    }
}

impl Finding {
    pub(super) fn of(self, check: &'static str) -> Self {
        Self { check, ..self }
    }
}
