//! `doctor` names each obstacle that makes `attach` fail, with a remedy.

use std::{fs, os::unix::process::CommandExt, process::Command};

use limiter_tests::{
    command::{Outcome, binary, copy_binary},
    foreign::{Foreign, PLAIN},
    hosts::{Hosts, on},
    need, need_kernel,
};
use serde_json::Value;

use super::{diagnose, expect, ip};

#[test]
fn doctor_names_a_foreign_program() {
    need_kernel!();
    if !need::tool("doctor_names_a_foreign_program", "bpftool") {
        return;
    }
    let (hosts, foreign) = (Hosts::new(), Foreign::load(PLAIN));
    for (how, mode, off) in [
        ("xdpdrv", "native", "xdp"),
        ("xdpgeneric", "generic", "xdpgeneric"),
    ] {
        foreign.attach(&hosts, how);
        let diagnosis = diagnose(&hosts, "eth0", 1);
        let advice = format!("ip link set eth0 {off} off");
        let words = ["problem", "'other_xdp'", mode, "--chain", &advice];
        expect(&diagnosis, "program", &words);
        // The advised command works.
        assert!(ip(&hosts, &advice["ip ".len()..]));
        diagnose(&hosts, "eth0", 0);
    }
}

/// The kernel takes a program below another one only in one order.
#[test]
fn doctor_and_attach_name_a_program_above_the_interface() {
    need_kernel!();
    let hosts = Hosts::new();
    assert!(ip(&hosts, "link add br0 type bridge"));
    assert!(ip(&hosts, "link set eth0 master br0"));
    hosts.run("attach br0 --rate 5");
    let diagnosis = diagnose(&hosts, "eth0", 1);
    let words = ["'br0' is above 'eth0'", "--hook tc"];
    expect(&diagnosis, "program", &words);
    hosts
        .limiter("attach eth0 --rate 5")
        .expect_error(1, &words);
    assert!(!hosts.pins().exists());
    hosts.run("detach br0");
    diagnose(&hosts, "eth0", 0);
    hosts.run("attach eth0 --rate 5");
    hosts.run("attach br0 --rate 5");
    hosts.run("set br0,eth0 --rate 6");
}

#[test]
fn doctor_runs_for_any_user_and_names_missing_privileges() {
    need_kernel!();
    let hosts = Hosts::new();
    // Any user may run this copy.
    let copy = std::env::temp_dir().join(format!("limiter-doctor-{}", std::process::id()));
    copy_binary(&copy);
    let run = || {
        let mut doctor = Command::new(&copy);
        doctor
            .args(["doctor", "eth0", "--json"])
            .uid(65_534)
            .gid(65_534);
        let output = on(&hosts.server, || doctor.output()).unwrap();
        let outcome = Outcome::of("doctor as a user".to_owned(), output);
        outcome.expect(1);
        serde_json::from_str::<Value>(&outcome.stdout).unwrap()
    };
    let free = run();
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
    let attached = run();
    fs::remove_file(&copy).unwrap();
    expect(
        &free,
        "privileges",
        &["problem", "CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON"],
    );
    expect(&free, "program", &["ok", "no XDP program"]);
    assert_eq!(free["mode"], "native");
    expect(
        &attached,
        "program",
        &["problem", "hidden from unprivileged users", "sudo"],
    );
}

#[test]
fn doctor_names_the_attachment_of_a_renamed_interface() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.limiter(&["attach", "eth0", "--rate", "5"]).expect(0);
    assert!(ip(&hosts, "link set eth0 name wan9"));
    assert!(ip(&hosts, "link add eth0 type veth peer name far"));
    let diagnosis = diagnose(&hosts, "eth0", 1);
    expect(
        &diagnosis,
        "program",
        &["problem", "'wan9'", "limiter detach wan9"],
    );
    let diagnosis = diagnose(&hosts, "wan9", 0);
    expect(&diagnosis, "program", &["ok", "limiter is attached"]);
    hosts.limiter(&["detach", "wan9"]).expect(0);
    diagnose(&hosts, "eth0", 0);
}

/// The bpffs would vanish with the mount namespace of the command.
#[test]
fn attach_refuses_and_doctor_reports_a_vanishing_bpffs() {
    need_kernel!();
    let hosts = Hosts::new();
    let script = "while umount /sys/fs/bpf 2>/dev/null; do :; done; \"$0\" doctor eth0 --json; echo \"$?\"; \
                  grep -c ' /sys/fs/bpf ' /proc/self/mountinfo; \"$0\" attach eth0 --rate 5";
    let run = || {
        Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .arg(binary())
            .output()
    };
    let output = hosts.server.namespace.run(run).unwrap().unwrap();
    let outcome = Outcome::of(script.to_owned(), output);
    outcome.expect(1);
    let lines: Vec<_> = outcome.stdout.lines().collect();
    let [json, "1", "0"] = lines[..] else {
        panic!("JSON, status 1 and no mount were wanted: {outcome:#?}");
    };
    let diagnosis = serde_json::from_str(json).unwrap();
    expect(
        &diagnosis,
        "bpffs",
        &["problem", "might vanish", "mount -t bpf -o mode=0700 bpf"],
    );
    assert!(
        outcome
            .stderr
            .lines()
            .all(|line| line.contains("might vanish"))
    );
    assert_eq!(outcome.stderr.lines().count(), 2, "{outcome:#?}");
}
