//! `cargo xtask lint`: everything that can be said about the code without running it.
//!
//! With the pinned toolchain also for the host's packages: a new release brings new lints, and those
//! are not to fail a build that was good yesterday.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    deny::Deny,
    flags,
    objects::{ENDIANS, target},
    paths, process,
    process::progress,
    rustup::{CLIPPY, RUST_SRC, RUSTFMT},
    toolchain::Rust,
};

/// Runs every check, so that all complaints are seen at once.
pub fn run(strict: bool) -> Result<()> {
    let rust = Rust::set_up(&[RUST_SRC, CLIPPY, RUSTFMT])?;
    let mut checks = vec![
        ("formatting of the workspace", format(&rust)),
        ("formatting of limiter-ebpf", format_ebpf(&rust)),
        ("clippy on the workspace", clippy(&rust)),
        ("clippy on limiter-ebpf", clippy_ebpf(&rust, "")),
        ("clippy on limiter-ebpf, log", clippy_ebpf(&rust, "log")),
    ];
    if let Some(deny) = Deny::find(&rust, strict)? {
        let ebpf = deny.check("limiter-ebpf/Cargo.toml");
        checks.push(("dependencies of the workspace", deny.check("Cargo.toml")));
        checks.push(("dependencies of limiter-ebpf", ebpf));
    }
    let failed = checks.into_iter().filter_map(complaint);
    let failed = failed.collect::<Vec<_>>().join("; ");
    if !failed.is_empty() {
        bail!("lint failed: {failed}: see the messages above");
    }
    Ok(())
}

fn complaint((name, mut command): (&'static str, Command)) -> Option<&'static str> {
    progress(name);
    process::run(&mut command).is_err().then_some(name)
}

fn format(rust: &Rust) -> Command {
    let mut fmt = rust.tool("cargo-fmt");
    fmt.args(["fmt", "--all", "--check"]);
    fmt
}

fn format_ebpf(rust: &Rust) -> Command {
    let mut fmt = rust.tool("cargo-fmt");
    fmt.args(["fmt", "--check", "--manifest-path"]);
    fmt.arg(paths::ebpf_manifest());
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
