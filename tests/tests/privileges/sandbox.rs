//! The exporter's network process works without privileges, and `top` with only those that it needs to read.

use std::fs;

use limiter_tests::{
    eventually,
    exporter::Exporter,
    hosts::Hosts,
    need_kernel, need_program,
    processes::{helper_of, status_of},
    screen::Screen,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Bits of the capabilities to read attachments: BPF, SYS_PTRACE, DAC_OVERRIDE.
const TO_READ: u64 = 1 << 39 | 1 << 19 | 1 << 1;
/// Bits of the capabilities to change attachments: NET_ADMIN and PERFMON too.
pub const KEPT: u64 = TO_READ | 1 << 12 | 1 << 38;

pub fn bits(process: Pid, set: &str) -> u64 {
    u64::from_str_radix(&status_of(process, set), 16).unwrap()
}

/// Panics unless this process can use only its descriptors, and its helper has only the capabilities it needs.
fn expect_confined(process: Pid) {
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(bits(process, set), 0, "{set} of {process}");
    }
    assert_eq!(status_of(process, "Groups"), "");
    expect_kept(process, KEPT);
    assert_eq!(status_of(process, "Seccomp"), "2");
    for ids in ["Uid", "Gid"] {
        let all = status_of(process, ids);
        assert!(
            all.split_whitespace().all(|id| id == "65534"),
            "{ids}: {all}"
        );
    }
    expect_kept(helper_of(process), KEPT);
    // The unprivileged process has no map, link or program open.
    for entry in fs::read_dir(format!("/proc/{process}/fd")).unwrap() {
        let target = fs::read_link(entry.unwrap().path()).unwrap_or_default();
        assert!(!target.to_string_lossy().contains("bpf"), "{target:?}");
    }
}

/// Panics unless this process has only these capabilities, and can gain none.
fn expect_kept(process: Pid, kept: u64) {
    for set in ["CapPrm", "CapEff"] {
        assert_eq!(bits(process, set) & !kept, 0, "{set} of {process}");
    }
    for set in ["CapInh", "CapBnd", "CapAmb"] {
        assert_eq!(bits(process, set), 0, "{set} of {process}");
    }
    assert_eq!(status_of(process, "NoNewPrivs"), "1", "{process}");
}

#[test]
fn exporter_follows_changes_without_privileges() {
    need_kernel!();
    let hosts = Hosts::new();
    let exporter = Exporter::start(&hosts.server);
    let process = exporter.process();
    expect_confined(process);
    let shown = || {
        let status = exporter.json("/api/status");
        assert_eq!(status["errors"].as_array().unwrap().len(), 0, "{status}");
        status["interfaces"][0]["limits"][0]["rate"].clone()
    };
    let expect = |rate: serde_json::Value| eventually("it is shown", || shown() == rate);
    expect(serde_json::Value::Null);
    hosts.run("attach eth0 --rate 5/s");
    expect("5/s".into());
    hosts.run("set eth0 --rate 7/s");
    expect("7/s".into());
    hosts.run("detach eth0");
    expect(serde_json::Value::Null);
    hosts.run("attach eth0 --rate 9/s");
    expect("9/s".into());
    // The reading gave the process no privileges.
    expect_confined(process);
}

#[test]
fn exporter_ends_with_its_helper_process() {
    need_kernel!();
    let hosts = Hosts::new();
    let exporter = Exporter::start(&hosts.server);
    let process = exporter.process();
    kill(helper_of(process), Signal::SIGKILL).unwrap();
    eventually("the exporter has ended", || {
        status_of(process, "State").starts_with('Z')
    });
    let (status, text) = exporter.wait();
    assert_eq!(status.code(), Some(1), "{status}");
    assert!(text.contains("start limiter again"), "{text}");
}

#[test]
fn helper_process_ends_with_its_exporter() {
    need_kernel!();
    let hosts = Hosts::new();
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let exporter = Exporter::start(&hosts.server);
        let helper = helper_of(exporter.process());
        // systemd signals both processes. The helper must not end first.
        let _ = kill(helper, Signal::SIGTERM);
        assert_eq!(exporter.get("/healthz"), "ok\n");
        kill(exporter.process(), signal).unwrap();
        exporter.wait();
        let gone = || !fs::exists(format!("/proc/{helper}/status")).unwrap();
        let dead = || gone() || status_of(helper, "State").starts_with('Z');
        eventually("the helper is gone", dead);
    }
}

/// The child of `top`, which runs the commands that its user asks for, has the capabilities to change attachments. It
/// hands them on to these commands, and ends with `top`.
#[test]
fn live_view_keeps_only_the_capabilities_to_read() {
    need_kernel!();
    need_program!("tmux");
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5/s");
    let screen = Screen::open(&hosts.server, (80, 24));
    screen.limiter("top eth0 --interval 100ms");
    screen.wait_for("by DROP/s");
    let view = screen.process();
    expect_kept(view, TO_READ);
    let child = helper_of(view);
    eventually("the child has given up its rights", || {
        status_of(child, "NoNewPrivs") == "1"
    });
    for set in ["CapPrm", "CapEff", "CapInh"] {
        assert_eq!(bits(child, set) & !KEPT, 0, "{set} of {child}");
    }
    for set in ["CapBnd", "CapAmb"] {
        assert_eq!(bits(child, set), 0, "{set} of {child}");
    }
    hosts.run("set eth0 --rate 7/s");
    screen.wait_for("7/s");
    expect_kept(view, TO_READ);
    kill(view, Signal::SIGKILL).unwrap();
    let gone = || !fs::exists(format!("/proc/{child}/status")).unwrap();
    eventually("the child is gone", || {
        gone() || status_of(child, "State").starts_with('Z')
    });
}
