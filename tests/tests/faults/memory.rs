//! Commands report it when they reach the memory limit of their control group.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
};

use limiter_tests::{
    command::{Outcome, prepared},
    need, need_kernel,
};

use crate::case::{ABSENT, BY_OLD, Case, Place};

/// A control group with a memory limit, removed on drop.
struct Group(PathBuf);

/// Memory limit in bytes: enough for the command, not for a large table.
const LIMIT: &str = "100663296";

impl Group {
    /// Makes a group, with version 1 or 2 of control groups.
    fn new() -> Option<Self> {
        let name = format!("limiter-test-{}", std::process::id());
        let limited = |parent: &str, file: &str| {
            let group = Self(Path::new(parent).join(&name));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(file), LIMIT).ok()?;
            Some(group)
        };
        limited("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            .or_else(|| limited("/sys/fs/cgroup", "memory.max"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn attach_without_enough_memory_fails_cleanly() {
    need_kernel!();
    let Some(group) = Group::new() else {
        need::missing(
            "attach_without_enough_memory_fails_cleanly",
            "no control groups with memory",
        );
        return;
    };
    let place = Place::new();
    let case = Case::new(&place, &[], ABSENT, BY_OLD);
    let limiter = |arguments: &[&str]| {
        let mut command = prepared(arguments);
        let processes = group.0.join("cgroup.procs");
        // SAFETY: the closure allocates, which is safe after fork with glibc's allocator.
        unsafe { command.pre_exec(move || fs::write(&processes, "0")) };
        let output = place.hosts.server.namespace.run(|| command.output());
        Outcome::of(arguments.join(" "), output.unwrap().unwrap())
    };
    let large = ["attach", "eth0", "--rate", "5", "--max-sources", "16000000"];
    for _ in 0..3 {
        limiter(&large).expect_error(
            1,
            &[
                "the tables",
                "SETS",
                "Cannot allocate memory",
                "lower --max-sources",
            ],
        );
        assert_eq!(case.settled("no memory"), ABSENT);
        case.expect_tidy("no memory");
    }
    limiter(&["attach", "eth0", "--config", &place.old]).expect(0);
    assert_eq!(case.settled("less"), BY_OLD);
    limiter(&["detach", "eth0"]).expect(0);
    assert_eq!(case.settled("detached"), ABSENT);
    case.expect_tidy("detached");
}
