//! A command that meets an obstacle prints one line with the problem, the reason and the remedy, and changes nothing.

use std::{fs, os::unix::process::CommandExt, process::Command};

use aya::maps::{Array, MapData};
use limiter_tests::{
    command::{Outcome, binary, limiter},
    eventually,
    hosts::Hosts,
    need_kernel,
};

#[test]
fn foreign_program_is_named_and_left_alone() {
    need_kernel!();
    let hosts = Hosts::new();
    // Any XDP program serves as the obstacle. This is limiter's own, attached in another way.
    let foreign =
        limiter_tests::engine::Kernel::new(&limiter_tests::engine::Limit::new("5/s", "1"));
    let link = hosts.server.namespace.run(|| {
        limiter_user::kernel::sys::link::Link::create(
            foreign.program.fd().unwrap(),
            hosts.server.index,
            limiter_user::kernel::sys::interface::XdpMode::Native,
        )
    });
    let link = link.unwrap().unwrap();
    let attach = hosts.limiter("attach eth0 --rate 5");
    attach.expect_error(
        1,
        &[
            "another XDP program",
            "'limiter_frags'",
            "native",
            "bpftool link detach id",
        ],
    );
    assert_ne!(link.info().unwrap().interface, 0, "still attached");
    hosts
        .limiter("detach eth0 --strict")
        .expect_error(1, &["not attached"]);
    assert_ne!(link.info().unwrap().interface, 0, "stays attached");
    drop(link);
    eventually("attach works without the other program", || {
        hosts.limiter("attach eth0 --rate 5").status == 0
    });
}

#[test]
fn commands_without_privileges_are_refused() {
    need_kernel!();
    let hosts = Hosts::new();
    // Any user may run this copy.
    let copy = std::env::temp_dir().join(format!("limiter-unprivileged-{}", std::process::id()));
    fs::copy(binary(), &copy).unwrap();
    for arguments in [
        &["attach", "eth0", "--rate", "5"][..],
        &["detach", "eth0"],
        &["set", "eth0", "--rate", "5"],
        &["check", "eth0", "192.0.2.7"],
        &["top", "eth0", "--once"],
        &["reset", "eth0", "--all"],
    ] {
        let output = hosts.server.namespace.run(|| {
            Command::new(&copy)
                .args(arguments)
                .uid(65_534)
                .gid(65_534)
                .output()
        });
        let outcome = Outcome::of(arguments.join(" "), output.unwrap().unwrap());
        outcome.expect_error(1, &["not permitted", "CAP_BPF", "sudo"]);
    }
    fs::remove_file(&copy).unwrap();
}

/// A hardened service may run as root with few capabilities.
#[test]
fn missing_capability_is_named() {
    need_kernel!();
    let hosts = Hosts::new();
    let limiter = |capabilities: &str, arguments: &[&str]| {
        let output = hosts.server.namespace.run(|| {
            Command::new("setpriv")
                .args(["--bounding-set", capabilities, "--inh-caps", capabilities])
                .args(["timeout", "20"])
                .arg(binary())
                .args(arguments)
                .output()
        });
        Outcome::of(arguments.join(" "), output.unwrap().unwrap())
    };
    for (too_few, missing) in [
        ("-all,+bpf,+perfmon", "lacks CAP_NET_ADMIN (to"),
        ("-all,+net_admin,+perfmon", "lacks CAP_BPF (to"),
        ("-all,+bpf,+net_admin", "lacks CAP_PERFMON (to"),
    ] {
        let refused = limiter(too_few, &["attach", "eth0", "--rate", "5"]);
        refused.expect_error(1, &[missing, "docs/security.md"]);
        // The agent exits, because it could never share.
        let refused = limiter(too_few, &["agent", "--store", "unix:///nonexistent"]);
        refused.expect_error(1, &[missing, "docs/security.md"]);
    }
}

#[test]
fn attach_on_an_old_kernel_is_refused() {
    need_kernel!();
    use nix::sys::personality::{Persona, set};

    let hosts = Hosts::new();
    // With this personality, the kernel reports version 2.6.x to this thread and its children.
    let outcome = hosts.server.namespace.run(|| {
        set(Persona::UNAME26).unwrap();
        limiter("attach eth0 --rate 5")
    });
    let outcome = outcome.unwrap();
    outcome.expect_error(1, &["this kernel is 2.6", "5.15 or later"]);
    assert!(!hosts.pins().exists());
}

#[test]
fn maps_of_another_layout_are_refused() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5");
    let pin = hosts.pins().join("TABLE");
    fs::remove_file(&pin).unwrap();
    Array::<MapData, [u8; 48]>::create(1, 0)
        .unwrap()
        .pin(&pin)
        .unwrap();
    for arguments in [
        &["status", "eth0"][..],
        &["set", "eth0", "--rate", "6"],
        &["check", "eth0", "192.0.2.7"],
        &["reset", "eth0", "--all"],
    ] {
        hosts
            .limiter(arguments)
            .expect_error(1, &["TABLE", "another build", "limiter detach eth0"]);
    }
    hosts
        .limiter("attach eth0 --rate 6")
        .expect_error(1, &["already"]);
    hosts.run("detach eth0");
    hosts.run("attach eth0 --rate 6");
}

#[test]
fn attach_works_under_ip_netns_exec() {
    need_kernel!();
    // The namespace has a name, like those of `ip netns`.
    let name = format!("limiter-test-{}", std::process::id());
    let ip = |arguments: &[&str]| {
        assert!(
            Command::new("ip")
                .args(arguments)
                .status()
                .unwrap()
                .success(),
            "ip {arguments:?}"
        );
    };
    ip(&["netns", "add", &name]);
    let in_netns = |arguments: &[&str]| {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &name])
            .arg(binary())
            .args(arguments);
        Outcome::of(arguments.join(" "), command.output().unwrap())
    };
    let attach = in_netns(&["attach", "lo", "--rate", "5"]);
    let status = in_netns(&["status"]);
    let advice = format!("nsenter --net=/run/netns/{name}");
    let as_advised = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{name}"))
        .arg(binary())
        .args(["attach", "lo", "--rate", "5", "--mode", "generic"])
        .output();
    let detached = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{name}"))
        .arg(binary())
        .args(["detach", "--all"])
        .output();
    ip(&["netns", "delete", &name]);
    attach.expect_error(1, &[&advice]);
    status.expect_error(1, &[&advice]);
    Outcome::of("as advised".to_owned(), as_advised.unwrap()).expect(0);
    Outcome::of("detach".to_owned(), detached.unwrap()).expect(0);
}
