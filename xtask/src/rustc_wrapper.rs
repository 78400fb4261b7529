//! Runs this program as rustc, so that symbols do not depend on any path.
//!
//! Cargo gives each crate a hash, which rustc adds to the names of symbols. The hash covers the absolute path of a
//! dependency outside its workspace (`limiter-common`), the path of the sources of `core`, and the host. Name and
//! version are enough here, because each crate occurs once in the program.

use std::{
    env,
    ffi::OsString,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result};

/// The variable that makes this program act as rustc.
const MARK: &str = "LIMITER_XTASK_AS_RUSTC";

/// True if cargo started this program as its rustc.
pub fn is_asked_for() -> bool {
    env::var_os(MARK).is_some()
}

/// Makes `cargo` compile through this program.
pub fn put_into(cargo: &mut Command) -> Result<()> {
    let this = env::current_exe().context("cannot find this program's own file: run it again")?;
    cargo.env("RUSTC_WRAPPER", this).env(MARK, "1");
    Ok(())
}

/// Runs the rustc that the first argument names.
pub fn run() -> Result<ExitCode> {
    let mut args = env::args_os().skip(1);
    let rustc = args
        .next()
        .with_context(|| format!("{MARK} is set by mistake: unset it"))?;
    let error = Command::new(&rustc)
        .args(args.map(without_path))
        .env_remove(MARK)
        .exec();
    Err(error).with_context(|| format!("cannot start {}", rustc.display()))
}

/// The argument. Cargo's hash of the crate is replaced.
fn without_path(arg: OsString) -> OsString {
    if !arg.to_str().is_some_and(|arg| arg.starts_with("metadata=")) {
        return arg;
    }
    let [name, version] =
        ["CARGO_PKG_NAME", "CARGO_PKG_VERSION"].map(|name| env::var(name).unwrap_or_default());
    format!("metadata={name}-{version}").into()
}
