//! `cargo xtask fuzz`: inputs that nobody has thought of, found by what they reach in the program (libFuzzer).

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{
    host, paths,
    process::{forget_rust_settings, output, progress, run as succeed},
};

/// The pinned release of cargo-fuzz.
const VERSION: &str = "0.13.2";
/// Targets that run the program in the kernel.
const IN_KERNEL: [&str; 2] = ["packets", "pins"];
/// cargo-fuzz makes one unit of each package otherwise, and the largest ones keep a single CPU busy for long.
const UNITS: [&str; 2] = ["--codegen-units", "16"];

/// Fuzzes the targets of these names, all where there are none, each for so many seconds.
pub fn run(names: &[String], seconds: u32) -> Result<ExitCode> {
    let folder = paths::root().join("fuzz");
    let names = chosen(names, all(&folder)?)?;
    set_up()?;
    progress("building the targets with instruments (some minutes, the first time)");
    succeed(cargo_fuzz(&folder).arg("build").args(UNITS))?;
    let mut found = false;
    println!(
        "{:16} {:>12} {:>9}  found",
        "target", "executions", "coverage"
    );
    for name in &names {
        if IN_KERNEL.contains(&&name[..])
            && let Some(why) = host::why_no_bpf()
        {
            println!("{name:16} left out: {why}");
            continue;
        }
        let of = fuzz(&folder, name, seconds)?;
        println!(
            "{name:16} {:>12} {:>9}  {}",
            of.executions,
            of.coverage,
            of.found.as_deref().unwrap_or("nothing")
        );
        found |= of.found.is_some();
    }
    if !found {
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "\nMend it, and move what was found to tests/fixtures/fuzz/TARGET/ under a name that says what it is: \
         `cargo test -p limiter-tests --test fuzz_corpus` runs it from then on."
    );
    Ok(ExitCode::FAILURE)
}

fn all(folder: &Path) -> Result<Vec<String>> {
    let targets = folder.join("fuzz_targets");
    let files = fs::read_dir(&targets).with_context(|| format!("no {}", targets.display()))?;
    let mut names = Vec::new();
    for file in files {
        let path = file?.path();
        names.extend(
            path.file_stem()
                .map(|name| name.to_string_lossy().into_owned()),
        );
    }
    names.sort();
    Ok(names)
}

fn chosen(names: &[String], all: Vec<String>) -> Result<Vec<String>> {
    if let Some(other) = names.iter().find(|name| !all.contains(name)) {
        bail!(
            "there is no target {other}: write some of {}",
            all.join(", ")
        );
    }
    Ok(if names.is_empty() {
        all
    } else {
        names.to_vec()
    })
}

/// What is needed beside stable Rust.
fn set_up() -> Result<()> {
    output(cargo().arg("--version")).context(
        "fuzzing needs a nightly compiler and a C++ compiler: rustup toolchain install nightly --profile minimal",
    )?;
    let version = output(cargo().args(["fuzz", "--version"])).unwrap_or_default();
    if version.trim_end().ends_with(VERSION) {
        return Ok(());
    }
    progress(&format!("building cargo-fuzz {VERSION} (a minute)"));
    let version = format!("={VERSION}");
    let mut install = cargo();
    install.args([
        "install",
        "--quiet",
        "--locked",
        "cargo-fuzz",
        "--version",
        &version,
    ]);
    succeed(&mut install).context("cannot install cargo-fuzz, put one on the PATH")
}

/// The cargo of the nightly toolchain.
fn cargo() -> Command {
    let mut rustup = Command::new("rustup");
    forget_rust_settings(&mut rustup);
    rustup.args(["run", "nightly", "cargo"]);
    rustup
}

fn cargo_fuzz(folder: &Path) -> Command {
    let mut cargo = cargo();
    cargo.arg("fuzz").current_dir(folder);
    cargo
}

/// What the run of a target has come to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    executions: u64,
    coverage: u64,
    /// The file of the input that was found.
    found: Option<String>,
}

fn fuzz(folder: &Path, name: &str, seconds: u32) -> Result<Outcome> {
    let corpus = folder.join("corpus").join(name);
    fs::create_dir_all(&corpus).with_context(|| format!("cannot make {}", corpus.display()))?;
    let log = paths::fuzz().join(format!("{name}.log"));
    fs::create_dir_all(paths::fuzz())?;
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let inputs = paths::root().join("tests/fixtures/fuzz").join(name);
    let mut cargo = cargo_fuzz(folder);
    cargo.arg("run").args(UNITS).arg(name);
    cargo.args([&corpus, &inputs]);
    cargo.args([
        "--",
        "-print_final_stats=1",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-max_len=4096",
    ]);
    cargo.arg(format!("-max_total_time={seconds}"));
    // Nothing that is read is a terminal.
    cargo
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file);
    let status = cargo
        .status()
        .context("cannot start rustup: is it installed?")?;
    let said = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
    let outcome = read(&String::from_utf8_lossy(&said));
    if !status.success() && outcome.found.is_none() {
        bail!("{name} did not run: see {}", log.display());
    }
    Ok(outcome)
}

/// Reads what libFuzzer says.
fn read(said: &str) -> Outcome {
    let mut outcome = Outcome::default();
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once(" cov: ") {
            outcome.coverage = first_number(rest).unwrap_or(outcome.coverage);
        }
        if let Some(rest) = line.strip_prefix("stat::number_of_executed_units:") {
            outcome.executions = first_number(rest).unwrap_or(0);
        }
        if let Some((_, path)) = line.split_once("Test unit written to ") {
            outcome.found = Some(path.trim().to_owned());
        }
    }
    outcome
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Outcome, read};

    #[test]
    fn what_libfuzzer_says_is_understood() {
        let said = "#2\tINITED cov: 10 ft: 12 corp: 1/1b\n#99\tREDUCE cov: 57 ft: 60 corp: 9/1Kb lim: 4\n\
            artifact_prefix='a/'; Test unit written to a/crash-0\nstat::number_of_executed_units: 99\n";
        let wanted = Outcome {
            executions: 99,
            coverage: 57,
            found: Some("a/crash-0".to_owned()),
        };
        assert_eq!(read(said), wanted);
        assert_eq!(read("error: nothing was built\n"), Outcome::default());
    }
}
