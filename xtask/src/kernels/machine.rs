//! Boots a kernel in an emulated virtual machine, which needs no processor features.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result};

use super::{
    image,
    release::{COUNTED, Release, WRITE_DOCS, folder},
    results::Run,
};
use crate::process::progress;

/// Maximum time of a machine in seconds.
const LONGEST: &str = "3600";
/// The kernel's command line. A kernel bug ends the machine. Warnings about emulated CPUs that stand still for long
/// are switched off. `norandmaps` and what follows save time: with random addresses, QEMU translates each process again.
const COMMAND_LINE: &str = "panic=-1 oops=panic nowatchdog rcupdate.rcu_cpu_stall_suppress=1 \
    mitigations=off norandmaps init_on_alloc=0 cryptomgr.notests";
/// The options of every machine.
const MACHINE: &str = "-nodefaults -no-user-config -no-reboot -display none -m 2048";
/// The processors of a machine that runs tests.
const TESTING: &str = "-accel tcg,thread=multi -smp 2";
/// The processor of the machine that counts: its clock advances by a nanosecond per instruction.
const COUNTING: &str = "-accel tcg,thread=single -icount shift=0,sleep=off -smp 1";
/// The network cards of a machine that runs tests: name, device, queues; and the script that connects them.
const CARDS: &str = include_str!("../../../tests/tests/drivers/cards.txt");
const NETWORK: &str = include_str!("network.sh");

/// Boots a kernel with its boot image. Returns the results of the tests. The names of the logs contain `turn`.
pub fn boot(release: Release, turn: &str) -> Result<Run> {
    let name = release.name;
    let [console, results] =
        ["console", "results"].map(|kind| folder().join(format!("{name}{turn}.{kind}.log")));
    let log = results.display();
    progress(&format!("booting Linux {name}: follow {log}"));
    let began = Instant::now();
    let mut machine = Command::new("timeout");
    machine.arg(LONGEST);
    let processors = if name == COUNTED { COUNTING } else { TESTING };
    if name != COUNTED && release.architecture.is_native() {
        machine.env("CARDS", CARDS.trim_end());
        machine.args(["unshare", "--net", "sh", "-c", NETWORK, "network"]);
    }
    machine.arg(format!("qemu-system-{}", release.architecture.name));
    machine.args(processors.split(' ').chain(MACHINE.split(' ')));
    let files = folder().join(format!("{name}{turn}"));
    let options = release.architecture.machine;
    let options = options.replace("FILES", &files.to_string_lossy());
    machine.args(options.split(' '));
    let kernel = folder().join(name).join("vmlinuz");
    machine.arg("-kernel").arg(kernel);
    let image = image::path(release.architecture);
    machine.arg("-initrd").arg(image);
    // The first process gets these as environment variables.
    let [of_processor, own] = [release.architecture.parameters, release.parameters];
    let mut command_line = format!("{COMMAND_LINE} {of_processor} {own} release={name}");
    if env::var_os(WRITE_DOCS).is_some() {
        command_line += &format!(" {WRITE_DOCS}=1");
    }
    machine.args(["-append", &command_line]);
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
