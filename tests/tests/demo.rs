//! The demonstration shows the main job, and leaves nothing behind however it ends.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use limiter_tests::{command::binary, eventually, need_kernel};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.args(arguments).env("LIMITER_BINARY", binary());
    command
}

/// Ids of the programs that are pinned under `folder`.
fn pinned(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let of = |path: &PathBuf| {
        if path.is_dir() {
            return pinned(path);
        }
        let program = aya::programs::ProgramInfo::from_pin(path);
        program.map_or(Vec::new(), |program| vec![program.id()])
    };
    paths.iter().flat_map(of).collect()
}

fn is_loaded(id: u32) -> bool {
    aya::programs::loaded_programs()
        .flatten()
        .any(|program| program.id() == id)
}

#[test]
fn demo_passes_as_many_packets_as_calculated() {
    need_kernel!();
    let output = demo(&["--for", "3s"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("are as expected: 10 at once"), "{text}");
    let last = text.rsplit("CLIENT").next().unwrap();
    for client in ["192.0.2.10", "192.0.2.66", "2001:db8:0:66::/64"] {
        let row = last.lines().find(|line| line.contains(client)).unwrap();
        let numbers: Vec<u64> = row
            .split_once(client)
            .unwrap()
            .1
            .split_whitespace()
            .map(|number| number.replace(',', "").parse().unwrap())
            .collect();
        let [sent, passed, dropped, allowed] = numbers[..] else {
            panic!("{row}")
        };
        assert_eq!(sent, passed + dropped, "{row}");
        assert!(passed.abs_diff(allowed) <= 1, "{row}");
        match client {
            "192.0.2.10" => assert_eq!(dropped, 0, "the polite client lost something: {row}"),
            _ => assert!(sent > 1_000, "the flood was one: {row}"),
        }
    }
}

#[test]
fn interrupted_or_killed_demo_leaves_nothing_behind() {
    need_kernel!();
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let mut child = demo(&["--for", "30s"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // The bpffs as the process sees it: its own, with the program.
        let bpffs = PathBuf::from(format!("/proc/{}/root/sys/fs/bpf/limiter", child.id()));
        eventually("the demo attaches", || !pinned(&bpffs).is_empty());
        let programs = pinned(&bpffs);
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        child.wait().unwrap();
        for id in programs {
            eventually("the program goes", || !is_loaded(id));
        }
    }
}
