//! Runs cargo-deny, which checks the licences and sources of all dependencies.

use std::{ffi::OsString, process::Command};

use anyhow::{Context, Result};

use crate::{
    paths,
    process::{output, progress, run},
    toolchain::Rust,
};

/// The pinned release.
const VERSION: &str = "0.20.2";

/// A cargo-deny on this machine, and the toolchain whose cargo lists the dependencies.
pub struct Deny<'a> {
    program: OsString,
    rust: &'a Rust,
}

impl<'a> Deny<'a> {
    /// Finds this checkout's cargo-deny or the developer's. If there is none, `strict` installs one.
    pub fn find(rust: &'a Rust, strict: bool) -> Result<Option<Self>> {
        let ours = paths::tools().join("bin/cargo-deny").into_os_string();
        for program in [ours.clone(), "cargo-deny".into()] {
            let version = output(Command::new(&program).arg("--version")).unwrap_or_default();
            if version.trim_end() == format!("cargo-deny {VERSION}") {
                return Ok(Some(Self { program, rust }));
            }
        }
        if !strict {
            progress("LEFT OUT: licences and sources of dependencies");
            progress(&format!(
                "needs: cargo install --locked cargo-deny@{VERSION}"
            ));
            return Ok(None);
        }
        let mut install = rust.install("cargo-deny", VERSION, &["--debug"]);
        run(&mut install).context("cannot install cargo-deny, put one on the PATH")?;
        let program = ours;
        Ok(Some(Self { program, rust }))
    }

    /// The command that checks licences and sources of the dependencies of `manifest`.
    pub fn check(&self, manifest: &str) -> Command {
        self.checks(manifest, &["bans", "licenses", "sources"])
    }

    /// The command that checks the dependencies of `manifest` against RustSec's advisories, like cargo-audit.
    pub fn advisories(&self, manifest: &str) -> Command {
        self.checks(manifest, &["advisories"])
    }

    fn checks(&self, manifest: &str, checks: &[&str]) -> Command {
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
    let said = match git.output() {
        Ok(output) if output.status.success() => return None,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Some(said)
}
