//! What the figures were measured on.

use std::{fs, time::SystemTime};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use serde::Serialize;

/// The machine, and when.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Where the kernel's clock comes from, which decides what reading it costs.
    pub clock_source: String,
    /// What the kernel does about Spectre v2, which decides what jumps and calls cost.
    pub spectre_v2: String,
    /// RFC 3339.
    pub date: String,
}

impl Machine {
    /// This one, now.
    pub fn this() -> Self {
        Self {
            cpu: cpu_model(),
            kernel: line_of("/proc/sys/kernel/osrelease"),
            clock_source: line_of(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            spectre_v2: line_of("/sys/devices/system/cpu/vulnerabilities/spectre_v2"),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        }
    }
}

fn line_of(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

fn cpu_model() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(
        || std::env::consts::ARCH.into(),
        |(_, model)| model.to_owned(),
    )
}

/// Keeps this thread on the last processor that it may use: the first one has most interrupts.
pub fn stay_on_one_cpu() -> nix::Result<()> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this)?;
    let last = (0..CpuSet::count())
        .rev()
        .find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(last.unwrap_or(0))?;
    sched_setaffinity(this, &one)
}
