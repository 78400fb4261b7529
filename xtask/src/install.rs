//! Programs of crates.io, pinned, in this checkout's tools. The developer's own tools do not change.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    paths,
    process::{output, progress, run},
};

/// Name and version of a program.
#[derive(Clone, Copy)]
pub struct Program(pub &'static str, pub &'static str);

impl Program {
    /// Finds the program among this checkout's tools.
    pub fn find(self) -> Option<PathBuf> {
        let path = paths::target().join("tools/bin").join(self.0);
        self.is_at(&path).then_some(path)
    }

    /// True if this version of the program is at `path`.
    pub fn is_at(self, path: &Path) -> bool {
        let printed = output(Command::new(path).arg("--version")).unwrap_or_default();
        let version = printed.split_whitespace().last().unwrap_or_default();
        version.trim_start_matches('v') == self.1
    }

    /// Finds the program, or builds it with `cargo` and these options of `cargo install`.
    pub fn set_up(self, mut cargo: Command, options: &[&str]) -> Result<PathBuf> {
        if let Some(path) = self.find() {
            return Ok(path);
        }
        let Self(name, version) = self;
        progress(&format!("building {name} {version} (some minutes)"));
        cargo.args(["install", "--quiet", "--locked", "--force", name]);
        cargo.args(["--version", &format!("={version}"), "--root"]);
        cargo.arg(paths::target().join("tools")).args(options);
        // Debug information is not needed.
        cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "false");
        run(&mut cargo).with_context(|| format!("cannot install {name} {version}"))?;
        self.find()
            .with_context(|| format!("cargo installed another {name} than {version}"))
    }
}
