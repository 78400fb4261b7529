//! kill -9 before each step of a change that takes over: limiting all the time, with nothing forgotten.

use std::fs;

use limiter_tests::{
    command::prepared,
    earlier,
    hosts::Hosts,
    need_earlier, number,
    steps::{End, run_until},
    trials::{has_program, passed},
};
use serde_json::Value;

/// More steps than the command has.
const MOST: usize = 200;
const CHANGE: [&str; 4] = ["set", "eth0", "--rate", "2/h"];

/// What was sent: probes end with a frame of another protocol.
fn of_ip(status: &Value, what: &str) -> u64 {
    number(&status["packets"][what]) - number(&status["passes"]["not_ip"])
}

/// What `status` says must be what is so, whichever of the two it is.
fn expect_limiting(hosts: &Hosts, at: &str) {
    assert!(has_program(hosts), "{at}");
    assert_eq!(passed(hosts), 0, "{at}: still limiting, nothing forgotten");
    let status = hosts.status();
    let packets = ["seen", "passed"].map(|what| of_ip(&status, what));
    assert_eq!(packets, [20, 3], "{at}: {status}");
    assert_eq!(status["sources"]["added"], 1, "{at}: {status}");
    let rate = status["limits"][0]["rate"].as_str().unwrap();
    assert!(["1/h", "2/h"].contains(&rate), "{at}: {status}");
    let said = earlier::limiter(hosts, &["status", "eth0"]);
    if earlier::pins(hosts).exists() {
        assert_eq!(status["earlier_layout"], 5, "{at}: {status}");
        assert_eq!(rate, "1/h", "{at}");
        said.expect(0);
    } else {
        assert!(status["earlier_layout"].is_null(), "{at}: {status}");
        said.expect_error(1, &["another version"]);
    }
}

/// Whatever was left, the next command of this version goes on from there.
fn expect_recovery(hosts: &Hosts, step: usize, at: &str) {
    let pins = hosts.pins();
    match step % 3 {
        0 => hosts.limiter(&["detach", "eth0"]).expect(0),
        1 if earlier::pins(hosts).exists() => {
            earlier::limiter(hosts, &["set", "eth0", "--rate", "3/h"]).expect(0);
        }
        _ => {
            hosts.limiter(&CHANGE).expect(0);
            assert_eq!(passed(hosts), 0, "{at}");
            assert_eq!(of_ip(&hosts.status(), "seen"), 30, "{at}");
            let entries = fs::read_dir(&pins).unwrap().count();
            assert_eq!(entries, 18, "{at}: link, sixteen maps, one generation");
        }
    }
    if !step.is_multiple_of(3) {
        hosts.limiter(&["detach", "eth0"]).expect(0);
    }
    assert!(!has_program(hosts), "{at}");
    let left = [pins, earlier::pins(hosts)].map(|folder| folder.exists());
    assert_eq!(left, [false; 2], "{at}: pins are left");
}

#[test]
fn whoever_is_killed_leaves_one_of_the_two() {
    need_earlier!();
    let hosts = Hosts::new();
    let (mut before, mut after) = (0, 0);
    for step in 0..MOST {
        earlier::limiter(&hosts, &["attach", "eth0", "--rate", "1/h", "--burst", "3"]).expect(0);
        assert_eq!(passed(&hosts), 3);
        let run = || run_until(&mut prepared(&CHANGE), step);
        let end = hosts.server.namespace.run(run).unwrap().unwrap();
        let at = format!("killed before step {step}, {end:?}");
        expect_limiting(&hosts, &at);
        if earlier::pins(&hosts).exists() {
            before += 1;
        } else {
            after += 1;
        }
        expect_recovery(&hosts, step, &at);
        if let End::Done(status) = end {
            assert_eq!(status, 0);
            println!("{before} before the pins were moved, {after} after");
            assert!(before > 3 && after > 3, "{before} and {after}");
            return;
        }
    }
    panic!("more than {MOST} steps");
}
