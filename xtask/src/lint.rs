//! `cargo xtask lint`: everything that can be said about the code without running it.
//!
//! With the pinned toolchain also for the host's packages: a new release brings new lints, and those
//! are not to fail a build that was good yesterday.

use std::{process::Command, thread};

use anyhow::{Result, bail};

use crate::{
    deny::{self, Deny},
    flags,
    objects::{ENDIANS, target},
    parts, paths,
    process::{self, joined, progress},
    rustup::{CLIPPY, RUST_SRC, RUSTFMT},
    toolchain::Rust,
    unsafe_code,
};

/// Runs every check, so that all complaints are seen at once.
pub fn run(strict: bool) -> Result<()> {
    let rust = Rust::set_up(&[RUST_SRC, CLIPPY, RUSTFMT])?;
    let ebpf = ["--manifest-path", "limiter-ebpf/Cargo.toml"];
    let fuzz = ["--manifest-path", "fuzz/Cargo.toml"];
    let checks = [
        ("formatting of the workspace", format(&rust, &["--all"])),
        ("formatting of limiter-ebpf", format(&rust, &ebpf)),
        ("formatting of fuzz", format(&rust, &fuzz)),
        ("clippy on the workspace", clippy(&rust)),
        ("clippy on limiter-ebpf", clippy_ebpf(&rust, "")),
        ("clippy on limiter-ebpf, log", clippy_ebpf(&rust, "log")),
    ];
    let (mut failed, deny) = thread::scope(|scope| {
        // To build it takes a minute, and towards the end one processor.
        let deny = scope.spawn(|| Deny::find(&rust, strict));
        let failed: Vec<_> = checks.into_iter().filter_map(complaint).collect();
        (failed, joined(deny))
    });
    if let Some(deny) = deny? {
        failed.extend(dependencies(&deny).into_iter().filter_map(complaint));
    }
    let own = [
        ("where unsafe code is", unsafe_code::check()),
        ("which part knows of which", parts::check()),
    ];
    for (name, checked) in own {
        progress(name);
        if let Err(error) = checked {
            progress(&format!("{error:#}"));
            failed.push(name);
        }
    }
    let failed = failed.join("; ");
    if !failed.is_empty() {
        bail!("lint failed: {failed}: see the messages above");
    }
    Ok(())
}

/// The checks of what the code depends on.
fn dependencies(deny: &Deny<'_>) -> Vec<(&'static str, Command)> {
    let ebpf = deny.check("limiter-ebpf/Cargo.toml");
    let mut checks = vec![
        ("dependencies of the workspace", deny.check("Cargo.toml")),
        ("dependencies of limiter-ebpf", ebpf),
    ];
    match deny::database_is_out_of_reach() {
        None => {
            let ebpf = deny.advisories("limiter-ebpf/Cargo.toml");
            checks.push(("advisories of the workspace", deny.advisories("Cargo.toml")));
            checks.push(("advisories of limiter-ebpf", ebpf));
        }
        // Said aloud, and no failure even strictly: it says nothing of the code.
        Some(why) => progress(&format!(
            "NOT CHECKED: advisories: RustSec's database cannot be fetched from here ({why})"
        )),
    }
    checks.push(("dependencies of fuzz", deny.check("fuzz/Cargo.toml")));
    checks
}

fn complaint((name, mut command): (&'static str, Command)) -> Option<&'static str> {
    progress(name);
    process::run(&mut command).is_err().then_some(name)
}

/// Of fuzz, where each target is one line, only the formatting is looked at: clippy would have to build libFuzzer.
fn format(rust: &Rust, packages: &[&str]) -> Command {
    let mut fmt = rust.tool("cargo-fmt");
    fmt.args(["fmt", "--check"]).args(packages);
    fmt
}

fn clippy(rust: &Rust) -> Command {
    let mut clippy = rust.tool("cargo-clippy");
    clippy.args(["clippy", "--quiet", "--locked"]);
    clippy.args(["--workspace", "--all-targets", "--", "-D", "warnings"]);
    clippy
}

/// By itself and as it is built, with the source of `core` and without unwinding: among the host's
/// packages its dependencies would get other features.
fn clippy_ebpf(rust: &Rust, features: &str) -> Command {
    let mut clippy = rust.tool("cargo-clippy");
    clippy.args(["clippy", "--quiet", "--manifest-path"]);
    clippy.arg(paths::ebpf_manifest()).args(flags::CARGO);
    clippy.args(["--features", features, "--target", &target(ENDIANS[0])]);
    let target_dir = paths::ebpf_target().join("clippy");
    clippy.arg("--target-dir").arg(target_dir);
    clippy.args(["--", "-D", "warnings"]);
    clippy.env("CARGO_ENCODED_RUSTFLAGS", flags::FLAGS.join("\x1f"));
    clippy.env("RUSTC_BOOTSTRAP", "1");
    clippy
}
