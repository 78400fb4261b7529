//! Programs of crates.io, pinned, in a folder that this user's checkouts share. The developer's own tools do not change.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    paths,
    process::{output, progress, run},
};

/// Name and version of a program, and what distinguishes this build of it from others.
#[derive(Clone, Copy)]
pub struct Program(pub &'static str, pub &'static str, pub &'static str);

impl Program {
    /// Returns the folder of this build: in the user's folder of caches, or in this checkout's `target`.
    fn root(self) -> PathBuf {
        let Self(name, version, build) = self;
        let home = || Some(env::home_dir()?.join(".cache"));
        let caches = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let caches = caches.filter(|path| path.is_absolute()).or_else(home);
        let tools = caches.unwrap_or_else(paths::target).join("limiter-tools");
        tools.join(format!("{name}-{version}{build}"))
    }

    /// Finds the program in its folder.
    pub fn find(self) -> Option<PathBuf> {
        let path = self.root().join("bin").join(self.0);
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
        let Self(name, version, _) = self;
        progress(&format!("building {name} {version} (some minutes)"));
        cargo.args(["install", "--quiet", "--locked", "--force", name]);
        cargo.args(["--version", &format!("={version}"), "--root"]);
        cargo.arg(self.root()).args(options);
        // Debug information is not needed.
        cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "false");
        run(&mut cargo).with_context(|| format!("cannot install {name} {version}"))?;
        self.find()
            .with_context(|| format!("cargo installed another {name} than {version}"))
    }
}
