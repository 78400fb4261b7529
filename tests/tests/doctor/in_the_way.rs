//! `doctor` names each obstacle that makes `attach` fail, with a remedy.

use std::{fs, os::unix::process::CommandExt, process::Command};

use limiter_tests::{
    command::{Outcome, binary},
    engine::{Kernel, Limit},
    eventually,
    hosts::Hosts,
    need, need_kernel,
};
use limiter_user::kernel::sys::{interface::XdpMode, link::Link};
use serde_json::Value;

use crate::{diagnose, expect, ip};

#[test]
fn doctor_names_a_foreign_program() {
    need_kernel!();
    if !need::tool("doctor_names_a_foreign_program", "bpftool") {
        return;
    }
    let hosts = Hosts::new();
    // Any XDP program serves as the obstacle. This is limiter's own, attached in another way.
    let foreign = Kernel::new(&Limit::new("5/s", "1"));
    let fd = foreign.program.fd().unwrap();
    let create = || Link::create(fd, hosts.server.index, XdpMode::Native);
    let link = hosts.server.namespace.run(create).unwrap().unwrap();
    let id = link.info().unwrap().program_id.to_string();
    let diagnosis = diagnose(&hosts, "eth0", 1);
    expect(
        &diagnosis,
        "program",
        &[
            "problem",
            "'limiter_frags'",
            &id,
            "native",
            "a link holds it",
            "bpftool link detach",
        ],
    );
    assert_eq!(diagnosis["mode"], "native");
    assert_ne!(link.info().unwrap().interface, 0, "still attached");
    drop(link);
    eventually("the link is gone", || {
        hosts.limiter(&["doctor", "eth0"]).status == 0
    });

    for (how, mode, off) in [
        ("xdpdrv", "native", "xdp"),
        ("xdpgeneric", "generic", "xdpgeneric"),
    ] {
        let attach = || {
            let arguments = ["net", "attach", how, "id", &id, "dev", "eth0"];
            Command::new("bpftool").args(arguments).output()
        };
        let output = hosts.server.namespace.run(attach).unwrap().unwrap();
        assert!(output.status.success(), "{output:?}");
        let diagnosis = diagnose(&hosts, "eth0", 1);
        let advice = format!("ip link set eth0 {off} off");
        expect(
            &diagnosis,
            "program",
            &["problem", &id, mode, "--chain", &advice],
        );
        // The advised command works.
        assert!(ip(&hosts, &advice["ip ".len()..]));
        diagnose(&hosts, "eth0", 0);
    }
}

#[test]
fn doctor_runs_for_any_user_and_names_missing_privileges() {
    need_kernel!();
    let hosts = Hosts::new();
    // Any user may run this copy.
    let copy = std::env::temp_dir().join(format!("limiter-doctor-{}", std::process::id()));
    fs::copy(binary(), &copy).unwrap();
    let run = || {
        let output = hosts.server.namespace.run(|| {
            Command::new(&copy)
                .args(["doctor", "eth0", "--json"])
                .uid(65_534)
                .gid(65_534)
                .output()
        });
        let outcome = Outcome::of("doctor as a user".to_owned(), output.unwrap().unwrap());
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

    let name = format!("limiter-doctor-{}", std::process::id());
    assert!(ip(&hosts, &format!("netns add {name}")));
    let inside = Command::new("ip")
        .args(["netns", "exec", &name])
        .arg(binary())
        .args(["doctor", "lo"])
        .output();
    assert!(ip(&hosts, &format!("netns delete {name}")));
    let inside = Outcome::of("doctor in ip netns exec".to_owned(), inside.unwrap());
    inside.expect(1);
    let advice = format!("nsenter --net=/run/netns/{name}");
    assert!(inside.stderr.contains(&advice), "{inside:#?}");
}
