//! A command that meets an obstacle prints one line with the problem, the reason and the remedy, and changes nothing.

use std::process::Command;

use limiter_tests::{
    command::{Outcome, binary, ip, prepared},
    eventually,
    hosts::{Hosts, on},
    need_kernel,
    steps::{End, Fault, run_traced},
};

#[test]
fn foreign_program_is_named_and_left_alone() {
    need_kernel!();
    let hosts = Hosts::new();
    // Any XDP program serves as the obstacle. This is limiter's own, attached in another way.
    let foreign =
        limiter_tests::engine::Kernel::new(&limiter_tests::engine::Limit::new("5/s", "1"));
    let link = hosts.server.namespace.run(|| {
        limiter_kernel::sys::link::Link::create(
            foreign.program.fd().unwrap(),
            hosts.server.index,
            limiter_kernel::sys::interface::XdpMode::Native,
        )
    });
    let link = link.unwrap().unwrap();
    let attach = hosts.limiter("attach eth0 --rate 5");
    let words = [
        "another XDP program",
        "'limiter_frags'",
        "native",
        "bpftool link detach id",
    ];
    attach.expect_error(1, &words);
    let doctor = hosts.limiter("doctor eth0");
    assert!(
        words.iter().all(|word| doctor.stderr.contains(word)),
        "{doctor:#?}"
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

/// Each attempt to attach that the kernel refuses is made once more, to hear its words.
#[test]
fn refused_attach_loads_its_program_once() {
    need_kernel!();
    let hosts = Hosts::new();
    let loads = |command: &str| {
        let words: Vec<_> = command.split(' ').collect();
        let mut loads = 0;
        let ended = on(&hosts.server, || {
            run_traced(&mut prepared(&words), |call| {
                loads += usize::from(call.name == "program");
                Fault::None
            })
        });
        (ended.unwrap().end, loads)
    };
    let (attached, once) = loads("attach eth0 --rate 5 --mode native");
    assert_eq!(attached, End::Done(0));
    hosts.run("detach eth0");
    ip(
        &hosts.server.namespace,
        "link add mv0 link eth0 type macvlan",
    );
    hosts.run("attach mv0 --rate 5 --mode generic");
    // The second attempt in a mode has a small program that listens.
    for (mode, listeners) in [("native", 1), ("auto", 2)] {
        let (refused, loads) = loads(&format!("attach eth0 --rate 5 --mode {mode}"));
        assert_eq!(refused, End::Done(1), "{mode}");
        assert_eq!(loads, once + listeners, "{mode}");
    }
}

/// `ip netns exec` gives its command a separate /sys.
#[test]
fn commands_under_ip_netns_exec_name_the_right_command() {
    need_kernel!();
    let name = format!("limiter-test-{}", std::process::id());
    let run = |arguments: &[&str]| {
        let output = Command::new(arguments[0]).args(&arguments[1..]).output();
        Outcome::of(arguments.join(" "), output.unwrap())
    };
    run(&["ip", "netns", "add", &name]).expect(0);
    let (limiter, net) = (
        binary().to_str().unwrap(),
        format!("--net=/run/netns/{name}"),
    );
    let attach = ["attach", "lo", "--rate", "5", "--mode", "generic"];
    let in_netns = ["ip", "netns", "exec", &name, limiter];
    let refused = [&attach[..], &["status"]].map(|verb| run(&[&in_netns, verb].concat()));
    let advised = [&attach[..], &["detach", "--all"]]
        .map(|verb| run(&[&["nsenter", &net, limiter], verb].concat()));
    run(&["ip", "netns", "delete", &name]).expect(0);
    for outcome in refused {
        outcome.expect_error(1, &["nsenter --net=/run/netns/NAME"]);
    }
    for outcome in advised {
        outcome.expect(0);
    }
}
