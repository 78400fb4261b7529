//! Programs that cargo has built, from its messages.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Result;
use serde::Deserialize;

use crate::process::output;

/// A program.
pub struct Program {
    /// Name of the program's target.
    pub name: String,
    /// Path of the program.
    pub file: PathBuf,
    /// The source file with `main`, or with the tests.
    pub source: PathBuf,
    /// Whether the program was built to run its tests.
    pub is_test: bool,
    manifest: PathBuf,
    package: String,
}

/// A message of cargo about a build, with the needed fields.
#[derive(Deserialize)]
struct Message {
    package_id: String,
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: PathBuf,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Runs `command`, a cargo command that builds, and returns the programs.
pub fn build(command: &mut Command) -> Result<Vec<Program>> {
    command.arg("--message-format=json-render-diagnostics");
    let messages = output(command.stderr(Stdio::inherit()))?;
    // Libraries and build scripts have other messages.
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    Ok(messages.map(Program::of).collect())
}

impl Program {
    fn of(message: Message) -> Self {
        Self {
            name: message.target.name,
            file: message.executable,
            source: message.target.src_path,
            is_test: message.profile.test,
            manifest: message.manifest_path,
            package: message.package_id,
        }
    }

    /// Adds the environment of `cargo test` to `command`: the folder of the package, and the package's variables.
    pub fn lend_package(&self, command: &mut Command) {
        let folder = self.manifest.parent().unwrap_or(Path::new("."));
        let (name, version) = name_and_version(&self.package);
        command.current_dir(folder);
        command.env("CARGO_MANIFEST_DIR", folder);
        command.env("CARGO_MANIFEST_PATH", &self.manifest);
        command.env("CARGO_PKG_NAME", name);
        command.env("CARGO_PKG_VERSION", version);
    }
}

/// The name and version in cargo's id of a package, `path+file:///folder#name@version`. The name is left out if it
/// equals the folder's.
fn name_and_version(id: &str) -> (&str, &str) {
    let (folder, rest) = id.rsplit_once('#').unwrap_or((id, ""));
    let name = folder.rsplit('/').next().unwrap_or_default();
    rest.split_once('@').unwrap_or((name, rest))
}

#[cfg(test)]
mod tests {
    use super::name_and_version;

    #[test]
    fn a_package_is_named_after_its_folder_or_not() {
        for id in ["path+file:///a/tests#b@0.1.0", "path+file:///a/b#0.1.0"] {
            assert_eq!(name_and_version(id), ("b", "0.1.0"));
        }
    }
}
