//! The demonstration shows the main job, and leaves nothing behind however it ends.

use std::{process::Stdio, thread, time::Duration};

use limiter_tests::{
    command::{limiter, prepared},
    need_kernel,
};

/// Ids of all loaded programs of limiter.
fn programs() -> Vec<u32> {
    let ours = |program: &aya::programs::ProgramInfo| {
        program
            .name_as_str()
            .is_some_and(|name| name.starts_with("limiter"))
    };
    aya::programs::loaded_programs()
        .flatten()
        .filter(ours)
        .map(|program| program.id())
        .collect()
}

#[test]
fn demo_passes_as_many_packets_as_calculated() {
    need_kernel!();
    let demo = limiter("demo --for 3s");
    demo.expect(0);
    assert!(demo.stdout.contains("native mode"), "{demo:#?}");
    assert!(
        demo.stdout.contains("are as expected: 10 at once"),
        "{demo:#?}"
    );
    let last = demo.stdout.rsplit("CLIENT").next().unwrap();
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
        assert!(
            client != "192.0.2.10" || dropped == 0,
            "the polite client lost something: {row}"
        );
        assert!(
            client == "192.0.2.10" || sent > 1_000,
            "the flood was one: {row}"
        );
    }
}

#[test]
fn interrupted_or_killed_demo_leaves_nothing_behind() {
    need_kernel!();
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };

    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let mut child = prepared("demo --for 30s")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let before = programs();
        thread::sleep(Duration::from_millis(700));
        let new: Vec<_> = programs()
            .into_iter()
            .filter(|id| !before.contains(id))
            .collect();
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        child.wait().unwrap();
        // Other tests load programs too. At least one of the new ones belonged to the demonstration.
        assert!(!new.is_empty(), "{signal}: the demonstration did not run");
        let pins = limiter_user::kernel::state::pins::root();
        let folders = std::fs::read_dir(pins).map_or(0, |entries| {
            entries
                .flatten()
                .filter(|entry| !entry.file_name().to_string_lossy().contains('@'))
                .count()
        });
        assert_eq!(
            folders, 0,
            "{signal}: nothing is pinned in the initial namespace"
        );
    }
}
