//! Reads properties of a process from the kernel.

use std::{fs, path::PathBuf, sync::LazyLock};

use nix::unistd::Pid;

use crate::eventually;

/// The value of a field in `/proc/PID/status`.
pub fn status_of(process: Pid, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}: {status}"))
        .trim()
        .to_owned()
}

/// Number of open files, sockets, maps and links of a process.
pub fn descriptors_of(process: Pid) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// CPU time of a process until now, in microseconds.
pub fn cpu_of(process: Pid) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    // utime and stime, in ticks of a hundredth of a second.
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .map(|ticks| ticks.parse::<u64>().unwrap() * 10_000)
        .sum()
}

/// The children of a process.
pub fn children_of(process: Pid) -> Vec<Pid> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    children
        .split_whitespace()
        .map(|child| Pid::from_raw(child.parse().unwrap()))
        .collect()
}

/// False if a process has ended, whether or not its parent has noticed.
pub fn is_running(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, fields)| fields);
    state.is_some_and(|fields| !fields.starts_with(['Z', 'X']))
}

/// True if the kernel has worked on all packets that were sent. On a busy machine, its threads `ksoftirqd` take over what
/// the sender's own call did not finish, and wait for a processor: then silence does not mean that nothing more comes.
pub fn no_packet_waits() -> bool {
    static THREADS: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let paths = processes.map(|process| process.path().join("stat"));
        let is_its = |path: &PathBuf| {
            fs::read_to_string(path).is_ok_and(|stat| stat.contains(" (ksoftirqd/"))
        };
        paths.filter(is_its).collect()
    });
    let stats = THREADS.iter().flat_map(fs::read_to_string);
    let mut states = stats.filter_map(|stat| stat.rsplit_once(") ")?.1.chars().next());
    !states.any(|state| state == 'R')
}

/// Waits until [`no_packet_waits`].
pub fn packets_are_delivered() {
    eventually("the kernel has worked on all packets", no_packet_waits);
}

/// The helper process of `limiter export`, `feed` or `notify`.
pub fn helper_of(process: Pid) -> Pid {
    // A program that `notify` has run may not have been reaped yet.
    let is_alone = || children_of(process).len() == 1;
    eventually("the helper is the only child", is_alone);
    children_of(process)[0]
}
