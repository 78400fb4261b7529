//! Describes the machine of a benchmark.

use std::{collections::BTreeMap, fs, time::SystemTime};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

/// Facts about the machine by name, and the date.
pub type Machine = BTreeMap<&'static str, String>;

/// Describes this machine now, with these processors.
pub fn describe(cpus: &[usize]) -> Machine {
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let caches = cpus.first().copied().map_or_else(Vec::new, caches);
    BTreeMap::from([
        ("cpu", format!("{} x {}", cpus.len(), cpu_model())),
        // Caches of the first measured processor: level, kind, size, and processors that share it.
        ("caches", caches.join(", ")),
        ("kernel", line_of("/proc/sys/kernel/osrelease")),
        // The source of the kernel's clock decides the cost of reading it.
        ("clock", line_of(clock)),
        // The mitigation of Spectre v2 decides the cost of jumps and calls.
        (
            "spectre_v2",
            line_of("/sys/devices/system/cpu/vulnerabilities/spectre_v2"),
        ),
        // Over 1, 5 and 15 minutes, before the benchmark.
        ("load", line_of("/proc/loadavg")),
        (
            "date",
            humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        ),
    ])
}

fn line_of(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

fn caches(cpu: usize) -> Vec<String> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let present = |index: &u32| fs::exists(format!("{folder}/index{index}")).unwrap_or(false);
    (0..)
        .take_while(present)
        .map(|index| {
            let say = |file: &str| line_of(&format!("{folder}/index{index}/{file}"));
            let [level, kind, size] = ["level", "type", "size"].map(say);
            format!("L{level} {kind} {size} of {}", say("shared_cpu_list"))
        })
        .collect()
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

/// The processors that this thread may use, last one first, because the first one has most interrupts.
pub fn cpus() -> nix::Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let mut cpus: Vec<usize> = (0..CpuSet::count())
        .filter(|&cpu| allowed.is_set(cpu).unwrap_or(false))
        .collect();
    cpus.reverse();
    Ok(cpus)
}

/// Keeps this thread on one processor.
pub fn stay_on(cpu: usize) -> nix::Result<()> {
    let mut one = CpuSet::new();
    one.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &one)
}

/// Processor time of this thread in nanoseconds. It includes the kernel's work for others, such as receiving the
/// packets that the thread sends.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact for 104 days of processor time"
)]
pub fn processor_time() -> nix::Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}
