//! Boots a kernel in an emulated virtual machine, which needs no processor features.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{fetch::Kernel, plan, releases::Release, report::Run};
use crate::{paths, process::progress};

/// Maximum total time of a machine.
const LONGEST: Duration = Duration::from_secs(25 * 60);
/// The kernel's command line. A kernel bug ends the machine. Warnings about emulated CPUs that stand still for long
/// are switched off.
const COMMAND_LINE: &str = "console=ttyS0 panic=-1 oops=panic nowatchdog \
    rcupdate.rcu_cpu_stall_suppress=1 tsc=nowatchdog mitigations=off";

/// Boots `kernel` with `image`. Returns the results of the tests.
pub fn boot(kernel: &Kernel, image: &Path) -> Result<Run> {
    let name = kernel.release.name;
    let began = Instant::now();
    let (console, results) = logs(name);
    fs::write(&results, "")?;
    let plan = if kernel.release.supported {
        "tests"
    } else {
        plan::REFUSAL
    };
    progress(&format!("booting Linux {name}"));
    let mut machine = machine();
    machine.arg("-kernel").arg(&kernel.image);
    machine.arg("-initrd").arg(image);
    machine.args([
        "-append",
        &format!("{COMMAND_LINE} release={name} plan={plan}"),
    ]);
    for file in [&console, &results] {
        machine.args(["-serial", &format!("file:{}", file.display())]);
    }
    let machine = machine.stdin(Stdio::null()).spawn();
    let mut machine =
        machine.context("cannot start qemu-system-x86_64: install qemu-system-x86")?;
    let in_time = wait(name, &mut machine, &results)?;
    let mut text = read(&results);
    text += &format!("=== seconds {}\n", began.elapsed().as_secs());
    if !in_time {
        text += &format!("=== late {}\n", LONGEST.as_secs());
    }
    fs::write(&results, text)?;
    last(kernel.release)
}

/// Reads the results of the last boot.
pub fn last(release: &'static Release) -> Result<Run> {
    let (console, results) = logs(release.name);
    let text = fs::read_to_string(&results)
        .with_context(|| format!("Linux {} was not booted yet", release.name))?;
    Ok(Run::read(release, &text, &read(&console)))
}

/// The files of the kernel's own messages, and of the tests' output.
fn logs(name: &str) -> (PathBuf, PathBuf) {
    let log = |what: &str| paths::kernels().join(format!("{name}.{what}.log"));
    (log("console"), log("results"))
}

/// The text from a serial line.
fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\r', "")
}

/// The command of the virtual machine. It has no 16-byte compare-and-swap: with it, Linux 6.12 was seen to die in its
/// allocator, with flags that no processor has (QEMU 7.2).
fn machine() -> Command {
    let mut machine = Command::new("qemu-system-x86_64");
    machine.args([
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max,-cx16",
        "-smp",
        "2",
        "-m",
        "2048",
    ]);
    machine.args([
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
    ]);
    machine
}

/// Waits for the end, and prints the current test. Returns false after a timeout.
fn wait(name: &str, machine: &mut Child, results: &Path) -> Result<bool> {
    let began = Instant::now();
    let mut told = 0;
    while machine.try_wait()?.is_none() {
        if began.elapsed() > LONGEST {
            machine.kill()?;
            machine.wait()?;
            return Ok(false);
        }
        let text = fs::read(results).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let targets = text
            .lines()
            .filter_map(|line| line.strip_prefix("=== target "));
        for target in targets.clone().skip(told) {
            progress(&format!("Linux {name}: {}", target.trim()));
        }
        told = targets.count();
        thread::sleep(Duration::from_millis(500));
    }
    Ok(true)
}
