//! `cargo xtask lint`: all checks of the code that do not run it.
//!
//! The host's packages are checked with the pinned toolchain too. A new release has new lints, which must not fail a
//! build that was good yesterday.

use std::{env, process::Command, thread};

use anyhow::{Result, bail};

use crate::{
    deny::{self, Deny},
    documents, flags, import_rules, names,
    objects::{ENDIANS, target},
    paths, prebuilt,
    process::{self, joined, progress},
    toolchain::{CLIPPY, RUST_SRC, RUSTFMT, Rust},
    unsafe_code,
};

/// Runs every check, so that all problems are shown at once.
pub fn run(strict: bool) -> Result<()> {
    let rust = Rust::set_up(&[RUST_SRC, CLIPPY, RUSTFMT])?;
    let ebpf = ["--manifest-path", "limiter-ebpf/Cargo.toml"];
    let fuzz = ["--manifest-path", "fuzz/Cargo.toml"];
    let tc = ["--bin", "limiter", "--features", "tc"];
    let checks = [
        ("formatting of the workspace", format(&rust, &["--all"])),
        ("formatting of limiter-ebpf", format(&rust, &ebpf)),
        ("formatting of fuzz", format(&rust, &fuzz)),
        (
            "clippy on the workspace",
            clippy(&rust, &["--workspace", "--all-targets"]),
        ),
        (
            "clippy on limiter-user without features",
            clippy(
                &rust,
                &["--package", "limiter-user", "--no-default-features"],
            ),
        ),
    ];
    let of_ebpf = [
        ("clippy on limiter-ebpf", clippy_ebpf(&rust, &[])),
        ("clippy on limiter-ebpf for tc", clippy_ebpf(&rust, &tc)),
    ];
    let (mut failed, deny, (objects, of_ebpf)) = thread::scope(|scope| {
        // All of them build for minutes, and use one processor towards the end.
        let deny = scope.spawn(|| Deny::find(&rust, strict));
        // Clippy comes after the comparison, and reuses its builds of macros if that is strict.
        let objects = scope.spawn(|| (prebuilt::check(strict), failures(of_ebpf)));
        (failures(checks), joined(deny), joined(objects))
    });
    failed.extend(of_ebpf);
    let deny = deny.map(|deny| failed.extend(failures(deny.iter().flat_map(dependencies))));
    let own = [
        ("cargo-deny", deny),
        ("objects", objects),
        ("files with unsafe code", unsafe_code::check()),
        ("imports between parts", import_rules::check()),
        ("names of variables", names::check()),
        ("documents and comments", documents::check()),
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

/// The checks of the dependencies.
fn dependencies(deny: &Deny<'_>) -> Vec<(&'static str, Command)> {
    let (workspace, ebpf, fuzz) = ("Cargo.toml", "limiter-ebpf/Cargo.toml", "fuzz/Cargo.toml");
    let others = |manifest| deny.check(manifest, &["bans", "licenses", "sources"]);
    let mut commands = vec![
        ("dependencies of the workspace", others(workspace)),
        ("dependencies of limiter-ebpf", others(ebpf)),
        ("dependencies of fuzz", others(fuzz)),
    ];
    match deny::database_is_out_of_reach() {
        None => {
            let advisories = |manifest| deny.check(manifest, &["advisories"]);
            commands.push(("advisories of the workspace", advisories(workspace)));
            commands.push(("advisories of limiter-ebpf", advisories(ebpf)));
        }
        // Printed, but not a failure even with `strict`: it says nothing about the code.
        Some(why) => progress(&format!(
            "NOT CHECKED: advisories: RustSec's database cannot be fetched from here ({why})"
        )),
    }
    commands
}

/// Runs the commands. Returns the names of those that failed.
fn failures(commands: impl IntoIterator<Item = (&'static str, Command)>) -> Vec<&'static str> {
    let run = |(name, mut command)| {
        progress(name);
        process::run(&mut command).is_err().then_some(name)
    };
    commands.into_iter().filter_map(run).collect()
}

/// Checks the formatting. This is the only check of the fuzz targets, because clippy would have to build libFuzzer.
fn format(rust: &Rust, packages: &[&str]) -> Command {
    let mut fmt = rust.tool("cargo-fmt");
    fmt.args(["fmt", "--check"]).args(packages);
    fmt
}

fn clippy(rust: &Rust, chosen: &[&str]) -> Command {
    let mut clippy = rust.tool("cargo-clippy");
    clippy.args(["clippy", "--quiet", "--locked"]);
    clippy.args(chosen).args(["--", "-D", "warnings"]);
    // `.ci/run` sets it. The tool's command has no variables of cargo.
    clippy.envs(env::vars_os().filter(|(name, _)| name == "CARGO_INCREMENTAL"));
    clippy
}

/// Runs clippy on the BPF program separately, with its own build settings: the source of `core`, without unwinding.
/// Together with the host's packages, its dependencies would get other features.
fn clippy_ebpf(rust: &Rust, chosen: &[&str]) -> Command {
    let mut clippy = rust.tool("cargo-clippy");
    clippy.args(["clippy", "--quiet"]).args(flags::CARGO);
    clippy.args(["--manifest-path", "limiter-ebpf/Cargo.toml"]);
    clippy.args(["--target", &target(ENDIANS[0])]).args(chosen);
    let folder = paths::target().join(prebuilt::STRICT);
    clippy.arg("--target-dir").arg(folder);
    clippy.args(["--", "-D", "warnings"]);
    clippy.env("CARGO_ENCODED_RUSTFLAGS", flags::FLAGS.join("\x1f"));
    clippy.env("RUSTC_BOOTSTRAP", "1");
    clippy
}
