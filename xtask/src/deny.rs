//! Runs cargo-deny, which checks the licences and sources of all dependencies.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::{install::Program, process::progress, toolchain::Rust};

const CARGO_DENY: Program = Program("cargo-deny", "0.20.2", "");

/// A cargo-deny on this machine, and a toolchain with the cargo that lists the dependencies.
pub struct Deny<'a> {
    program: PathBuf,
    rust: &'a Rust,
}

impl<'a> Deny<'a> {
    /// Finds the developer's cargo-deny or the pinned one. If there is none, `strict` installs one.
    pub fn find(rust: &'a Rust, strict: bool) -> Result<Option<Self>> {
        let on_path = PathBuf::from(CARGO_DENY.0);
        let program = if CARGO_DENY.is_at(&on_path) {
            on_path
        } else if let Some(program) = CARGO_DENY.find() {
            program
        } else if strict {
            CARGO_DENY.set_up(rust.tool("cargo"), &["--debug"])?
        } else {
            progress("LEFT OUT: licences and sources of dependencies");
            let version = CARGO_DENY.1;
            progress(&format!("needs: cargo install cargo-deny@{version}"));
            return Ok(None);
        };
        Ok(Some(Self { program, rust }))
    }

    /// The command that runs these checks on the dependencies of `manifest`.
    pub fn check(&self, manifest: &str, checks: &[&str]) -> Command {
        let mut deny = self.rust.command(&self.program);
        deny.args(["--manifest-path", manifest, "--config", "deny.toml"]);
        deny.args(["--locked", "check", "--hide-inclusion-graph"]);
        deny.args(checks);
        deny
    }
}

/// The repository of the advisories, from which cargo-deny and cargo-audit fetch them.
const DATABASE: &str = "https://github.com/RustSec/advisory-db";

/// The reason why the database cannot be fetched from here; none if it can.
pub fn database_is_out_of_reach() -> Option<String> {
    let mut git = Command::new("timeout");
    git.args(["20", "git", "ls-remote", "--quiet", DATABASE, "HEAD"]);
    git.env("GIT_TERMINAL_PROMPT", "0");
    let text = match git.output() {
        Ok(output) if output.status.success() => return None,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Some(text)
}
