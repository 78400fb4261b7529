//! A kernel of an old version is asked whether it has what limiter needs, as distributions add that to old versions; what
//! it lacks is named. The kernel here tells a version of 2.6, and features are taken away by refusing the calls that try
//! them.

use limiter_tests::{
    calls::{Call, QUERY},
    command::{Outcome, ip, limiter, prepared},
    hosts::{Hosts, on},
    need_kernel,
    steps::{End, Fault, run_traced},
};
use nix::sys::personality::{Persona, set};

/// With this personality, the kernel reports version 2.6.x to this thread and its children.
fn pretend_to_be_old() {
    set(Persona::UNAME26).unwrap();
}

/// Runs a command on the server, whose kernel seems to be old.
fn on_old(hosts: &Hosts, command: &str) -> Outcome {
    on(&hosts.server, || {
        pretend_to_be_old();
        limiter(command)
    })
}

/// Like [`on_old`]; calls are refused as unknown if `lacks` returns true for them. It counts equal calls, from 1.
fn on_old_without(
    hosts: &Hosts,
    command: &str,
    lacks: impl Fn(&str, usize) -> bool + Sync,
) -> Outcome {
    let words: Vec<_> = command.split(' ').collect();
    let stopped = on(&hosts.server, || {
        pretend_to_be_old();
        let mut calls = Vec::new();
        run_traced(&mut prepared(&words), |call: &Call| {
            calls.push(call.name.clone());
            let count = calls.iter().filter(|name| **name == call.name).count();
            match lacks(&call.name, count) {
                true => Fault::Refuse(libc::EINVAL),
                false => Fault::None,
            }
        })
    });
    let stopped = stopped.unwrap();
    assert_ne!(stopped.fault, Fault::None, "{command}: nothing was refused");
    let End::Done(status) = stopped.end else {
        panic!("{stopped:?}");
    };
    Outcome {
        line: command.to_owned(),
        status,
        stdout: stopped.stdout,
        stderr: stopped.stderr,
    }
}

#[test]
fn old_version_with_all_features_is_used_in_each_mode() {
    need_kernel!();
    let hosts = Hosts::new();
    for host in [&hosts.server, &hosts.client] {
        ip(&host.namespace, "link set eth0 mtu 9000");
    }
    // Frames of this size need packets in several buffers, and answers programs that write into packets.
    let attached = on_old(
        &hosts,
        "attach eth0 --rate 5 --mode native --proof syn-cookie",
    );
    attached.expect(0);
    let note = "not tested on Linux 2.6";
    assert!(attached.stderr.contains(note), "{attached:#?}");
    assert_eq!(hosts.status()["mode"], "native");
    on_old(&hosts, "set eth0 --rate 6").expect(0);
    on_old(&hosts, "attach eth0:out --rate 5").expect(0);
    let doctor = on_old(&hosts, "doctor eth0:out");
    doctor.expect(0);
    let line = doctor.stdout.lines().find(|line| line.contains("kernel"));
    let line = line.unwrap_or_default();
    assert!(
        line.contains("Linux 2.6") && !line.contains("without"),
        "{doctor:#?}"
    );
}

/// Panics unless the command failed, and its last line of errors has all `words`. `doctor` also prints its findings.
fn expect_words(refused: &Outcome, words: &[&str]) {
    refused.expect(1);
    let message = refused.stderr.lines().last().unwrap_or_default();
    assert!(
        words.iter().all(|word| message.contains(word)),
        "{words:?}: {refused:#?}"
    );
}

#[test]
fn features_that_an_old_version_lacks_are_named() {
    need_kernel!();
    let hosts = Hosts::new();
    for (call, feature) in [("program", "compare-and-swap"), ("link", "links for XDP")] {
        for command in [
            "attach eth0 --rate 5 --mode native",
            "learn eth0 --for 1s",
            "doctor eth0",
        ] {
            let refused = on_old_without(&hosts, command, |name, count| name == call && count == 1);
            expect_words(
                &refused,
                &["this kernel is 2.6", feature, "boot a newer kernel"],
            );
        }
    }
    for command in ["attach eth0:out --rate 5", "doctor eth0:out"] {
        let refused = on_old_without(&hosts, command, |name, _| name == QUERY);
        expect_words(&refused, &["tcx", "lacks"]);
    }
    // The third program is the one for packets in several buffers.
    let third = |name: &str, count| name == "program" && count == 3;
    let without = on_old_without(&hosts, "doctor eth0", third);
    without.expect(0);
    let words = "without jumbo frames in native mode and proof";
    assert!(without.stdout.contains(words), "{without:#?}");
    assert!(!hosts.pins().exists());
    let attached = on_old_without(&hosts, "attach eth0 --rate 5 --mode native", third);
    attached.expect(0);
    let words = "No jumbo frames (MTU above about 3500): this kernel does not support them";
    assert!(attached.stdout.contains(words), "{attached:#?}");
}
