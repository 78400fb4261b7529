//! Describes the machine of a benchmark.

use std::{collections::BTreeMap, fs, process::Command, time::SystemTime};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

/// Files with a fact. The source of the kernel's clock decides the cost of reading it.
const FILES: [(&str, &str); 3] = [
    ("kernel", "/proc/sys/kernel/osrelease"),
    (
        "clock",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ),
    ("load", "/proc/loadavg"),
];

/// Facts from `lscpu`. The mitigation of Spectre v2 decides the cost of jumps and calls.
const LSCPU: [&str; 5] = ["Model name", "L1d", "L2", "L3", "Spectre v2"];

/// Facts about this machine by name, and the date.
pub fn describe() -> BTreeMap<String, String> {
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let mut facts = BTreeMap::from([("date".to_owned(), date)]);
    for (name, path) in FILES {
        let value = fs::read_to_string(path).unwrap_or_default();
        facts.insert(name.to_owned(), value.trim().to_owned());
    }
    let lscpu = Command::new("lscpu").env("LC_ALL", "C").output();
    let lines = lscpu.map_or_else(|_| Vec::new(), |output| output.stdout);
    for line in String::from_utf8_lossy(&lines).lines() {
        if let Some((name, value)) = line.split_once(':')
            && LSCPU.iter().any(|wanted| name.contains(wanted))
        {
            facts.insert(name.trim().to_owned(), value.trim().to_owned());
        }
    }
    facts
}

/// The processors that this thread may use, last one first, because the first one has most interrupts.
pub fn cpus() -> nix::Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let is_allowed = |cpu: &usize| allowed.is_set(*cpu).unwrap_or(false);
    Ok((0..CpuSet::count()).rev().filter(is_allowed).collect())
}

/// Keeps this thread on one processor.
pub fn stay_on(cpu: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// Processor time of this thread in nanoseconds. It includes the kernel's work for others, such as receiving the
/// packets that the thread sends.
pub fn processor_time() -> nix::Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}
