//! Programs that cargo has built, from its messages.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Result;
use serde::Deserialize;

use crate::process::output;

/// A program, as cargo describes it in its messages about a build.
#[derive(Clone, Deserialize)]
pub struct Program {
    manifest_path: PathBuf,
    target: Target,
    pub profile: Profile,
    #[serde(rename = "executable")]
    pub file: PathBuf,
}

#[derive(Clone, Deserialize)]
struct Target {
    name: String,
    src_path: PathBuf,
}

#[derive(Clone, Deserialize)]
pub struct Profile {
    /// True if the program was built to run its tests.
    pub test: bool,
}

/// Runs `command`, a cargo command that builds, and returns the programs.
pub fn build(command: &mut Command) -> Result<Vec<Program>> {
    command.arg("--message-format=json-render-diagnostics");
    let messages = output(command.stderr(Stdio::inherit()))?;
    // Libraries and build scripts have other messages.
    let programs = messages.lines().map(serde_json::from_str);
    Ok(programs.filter_map(Result::ok).collect())
}

impl Program {
    pub fn name(&self) -> &str {
        &self.target.name
    }

    /// The source file with `main`, or with the tests.
    pub fn source(&self) -> &Path {
        &self.target.src_path
    }

    /// Runs `command` in the folder of the package, like `cargo test`.
    pub fn set_folder(&self, command: &mut Command) {
        let folder = self.manifest_path.parent().unwrap_or(Path::new("."));
        command
            .current_dir(folder)
            .env("CARGO_MANIFEST_DIR", folder);
    }
}
