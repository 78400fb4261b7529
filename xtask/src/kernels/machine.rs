//! Boots a kernel in an emulated virtual machine, which needs no processor features.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result};

use super::{COUNTED, Release, WRITE_DOCS, folder, results::Run};
use crate::process::progress;

/// Maximum time of a machine in seconds.
const LONGEST: &str = "3600";
/// The kernel's command line. A kernel bug ends the machine. Warnings about emulated CPUs that stand still for long
/// are switched off.
const COMMAND_LINE: &str = "console=ttyS0 panic=-1 oops=panic nowatchdog \
    rcupdate.rcu_cpu_stall_suppress=1 tsc=nowatchdog mitigations=off";
/// The options of every machine.
const MACHINE: &str = "-nodefaults -no-user-config -no-reboot -display none";
/// The processors of a machine that runs tests. They have no 16-byte compare-and-swap: with it, Linux 6.12 was seen to
/// die in its allocator, with flags that no processor has (QEMU 7.2).
const TESTING: &str = "-accel tcg,thread=multi -cpu max,-cx16 -smp 2 -m 2048";
/// The processor of the machine that counts: its clock advances by a nanosecond per instruction.
const COUNTING: &str =
    "-accel tcg,thread=single -icount shift=0,sleep=off -cpu max,-cx16 -smp 1 -m 2048";
/// The network cards of a machine that runs tests: name, device, queues; and the script that connects them.
const CARDS: &str = include_str!("../../../tests/tests/drivers/cards.txt");
const NETWORK: &str = include_str!("network.sh");

/// Boots a kernel with `image`. Returns the results of the tests. The names of the logs contain `turn`.
pub fn boot(release: Release, image: &Path, turn: &str) -> Result<Run> {
    let name = release.name;
    let [console, results] =
        ["console", "results"].map(|what| folder().join(format!("{name}{turn}.{what}.log")));
    progress(&format!(
        "booting Linux {name}: follow {}",
        results.display()
    ));
    let began = Instant::now();
    let mut machine = Command::new("timeout");
    machine.arg(LONGEST);
    let mut processors = COUNTING;
    if name != COUNTED {
        processors = TESTING;
        machine.env("CARDS", CARDS.trim_end());
        machine.args(["unshare", "--net", "sh", "-c", NETWORK, "network"]);
    }
    machine.arg("qemu-system-x86_64");
    machine.args(processors.split(' ').chain(MACHINE.split(' ')));
    machine
        .arg("-kernel")
        .arg(folder().join(name).join("vmlinuz"));
    machine.arg("-initrd").arg(image);
    // The first process gets these as environment variables.
    let mut command_line = format!("{COMMAND_LINE} release={name}");
    if env::var_os(WRITE_DOCS).is_some() {
        command_line += &format!(" {WRITE_DOCS}=1");
    }
    machine.args(["-append", &command_line]);
    for file in [&console, &results] {
        machine.args(["-serial", &format!("file:{}", file.display())]);
    }
    let ended = machine.stdin(Stdio::null()).status();
    let ended = ended.context("cannot start the virtual machine: install coreutils")?;
    let mut run = Run::read(name, &read(&results)?, &read(&console)?);
    run.seconds = began.elapsed().as_secs();
    if !ended.success() {
        let complaint = format!("the virtual machine: {ended} (124: after {LONGEST} s)");
        run.complaints.push(complaint);
    }
    Ok(run)
}

/// The text from a serial line.
fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
}
