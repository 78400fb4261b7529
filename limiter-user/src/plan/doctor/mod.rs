//! `doctor`: what a survey means for `attach`. Only what is known is said: where the kernel does not
//! answer, the finding says so.

mod device;
mod machine;
mod mode;
mod occupant;
mod offloads;
pub mod room;

use serde::Serialize;

use crate::kernel::{Error, probe::Survey};

/// `doctor --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Name of the interface.
    pub interface: String,
    /// One for each check, always in the same order.
    pub findings: Vec<Finding>,
    /// What `attach --mode auto` is expected to use, or uses already.
    pub mode: Mode,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// What was looked at: one word.
    pub check: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What is so.
    pub found: String,
    /// What to do; none where there is nothing to do.
    pub advice: Option<String>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing to do.
    Ok,
    /// Limiting works, but not as well as it could.
    Warning,
    /// `attach` fails, or nothing would be limited.
    Problem,
}

impl Level {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// What `attach --mode auto` is expected to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The driver.
    Native,
    /// The network stack.
    Generic,
    /// Only `attach` can tell.
    Unknown,
}

impl Mode {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Unknown => "unknown",
        }
    }
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Ok,
            found: found.into(),
            advice: None,
        }
    }

    fn warning(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            level: Level::Warning,
            advice: Some(advice.into()),
            ..Self::ok(check, found)
        }
    }

    fn problem(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            level: Level::Problem,
            advice: Some(advice.into()),
            ..Self::ok(check, found)
        }
    }

    /// Errors say what to do after their last colon.
    fn error(check: &'static str, error: &Error) -> Self {
        let text = error.to_string();
        match text.rsplit_once(": ") {
            Some((found, advice)) => Self::problem(check, found, advice),
            None => Self::problem(check, text, "the same would stop `limiter attach`"),
        }
    }
}

impl Diagnosis {
    /// The checks that found a problem.
    #[must_use]
    pub fn problems(&self) -> Vec<&Finding> {
        let problem = |finding: &&Finding| finding.level == Level::Problem;
        self.findings.iter().filter(problem).collect()
    }
}

/// Judges a survey.
#[must_use]
pub fn diagnose(survey: &Survey) -> Diagnosis {
    let Survey {
        interface,
        machine,
        device,
    } = survey;
    let mut findings = machine::findings(machine);
    let mut expected = Mode::Unknown;
    match device {
        Err(error) => findings.push(Finding::error("interface", error)),
        Ok(device) => {
            expected = mode::expected(device);
            findings.extend(device::findings(interface, device, machine, expected));
            findings.extend(offloads::findings(interface, device, expected));
            findings.push(occupant::finding(interface, &device.occupant));
        }
    }
    Diagnosis {
        interface: interface.clone(),
        findings,
        mode: expected,
    }
}

#[cfg(test)]
mod tests;
