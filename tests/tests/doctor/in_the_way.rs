//! `doctor` names each obstacle that makes `attach` fail, with a remedy.

use std::process::Command;

use limiter_tests::{
    foreign::{Foreign, PLAIN},
    hosts::Hosts,
    need, need_kernel,
};

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

/// The other end has more transmit queues.
#[test]
fn veth_with_too_few_queues_is_refused_with_the_command_that_gives_it_more() {
    need_kernel!();
    let hosts = Hosts::new();
    let pair = "link add v1 numtxqueues 4 numrxqueues 4 type veth peer name v2 numtxqueues 4 numrxqueues 4";
    assert!(ip(&hosts, pair));
    let ethtool = |words: &[&str]| {
        let set = || Command::new("ethtool").args(words).status();
        assert!(hosts.server.namespace.run(set).unwrap().unwrap().success());
    };
    ethtool(&["-L", "v2", "rx", "1"]);
    let words = [
        "fewer receive queues than its other end",
        "ethtool -L v2 rx N",
        "ethtool -L PEER tx N",
    ];
    let native = "attach v2 --rate 5 --mode native";
    let refused = hosts.limiter(native);
    refused.expect_error(1, &words);
    // The driver's own words (Linux 6.6), `veth_xdp_set` in drivers/net/veth.c.
    let said = refused
        .stderr
        .contains("the kernel says 'veth: XDP expects number of rx queues");
    assert!(said || !need::tcx(), "{refused:?}");
    let doctor = diagnose(&hosts, "v2", 0);
    if doctor["mode"] == "generic" {
        expect(&doctor, "driver", &words);
    }
    let attached = hosts.run("attach v2 --rate 5 --mode xdp");
    assert!(attached.contains(words[0]), "{attached}");
    hosts.run("detach v2");
    // The advised command works.
    ethtool(&["-L", "v2", "rx", "4"]);
    hosts.run(native);
}
