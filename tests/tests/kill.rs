//! After `kill -9` at any time, limiter is completely attached or not attached.

use std::{
    fs,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    command::prepared,
    eventually,
    hosts::Hosts,
    need_kernel,
    trials::{has_program, passed},
};

const ROUNDS: u32 = 60;

/// Runs the command to its end. Returns the duration.
fn duration_of(hosts: &Hosts, arguments: &[&str]) -> Duration {
    let start = Instant::now();
    hosts.limiter(arguments).expect(0);
    start.elapsed()
}

/// Starts the command on the server, and kills it after `delay`.
fn kill(hosts: &Hosts, arguments: &[&str], delay: Duration) {
    let child = hosts.server.namespace.run(|| {
        prepared(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    });
    let mut child = child.unwrap().unwrap();
    thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Times spread over the duration of a command, and later times until a command completes, because a command can take
/// longer than when it was timed.
struct Moments {
    life: Duration,
    round: u32,
}

impl Moments {
    fn of(life: Duration) -> Self {
        Self { life, round: 0 }
    }

    /// The next time.
    fn next(&mut self, one_ended: bool) -> Option<Duration> {
        let last = if one_ended { ROUNDS } else { 8 * ROUNDS };
        let delay = self.life * 5 / 4 * self.round / ROUNDS;
        self.round += 1;
        (self.round <= last).then_some(delay)
    }
}

/// Waits until program and pins agree: the kernel releases the link of a dead process with a delay. True if attached.
fn settled(hosts: &Hosts) -> bool {
    let is_attached = || {
        let status = hosts.json("status --json");
        !status["interfaces"].as_array().unwrap().is_empty()
    };
    eventually("program and status agree", || {
        is_attached() == has_program(hosts)
    });
    is_attached()
}

#[test]
fn killed_attach_is_whole_or_absent() {
    need_kernel!();
    let hosts = Hosts::new();
    let attach = ["attach", "eth0", "--rate", "1/h", "--burst", "3"];
    let life = duration_of(&hosts, &attach);
    hosts.run("detach eth0");

    let mut attached = 0;
    let (mut moments, mut rounds) = (Moments::of(life), 0);
    while let Some(delay) = moments.next(attached > 0) {
        rounds += 1;
        kill(&hosts, &attach, delay);
        if settled(&hosts) {
            attached += 1;
            assert_eq!(
                passed(&hosts),
                3,
                "killed after {delay:?}: attached, so it limits"
            );
            hosts.run("detach eth0");
        } else {
            assert_eq!(passed(&hosts), 10, "killed after {delay:?}: not attached");
        }
        // The next `attach` works in any state.
        hosts.limiter(&attach).expect(0);
        hosts.run("detach eth0");
        assert!(!has_program(&hosts));
    }
    assert!(
        (1..rounds).contains(&attached),
        "moments on both sides: {attached} of {rounds}"
    );
    let folder = hosts.pins();
    assert!(!folder.exists(), "pins are left");
}

#[test]
fn killed_set_is_whole_or_absent() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 3");
    assert_eq!(passed(&hosts), 3);
    let life = duration_of(&hosts, &["set", "eth0", "--rate", "2/h"]);

    let mut changed = 0;
    let mut rate = "2/h".to_owned();
    let (mut moments, mut rounds) = (Moments::of(life), 0);
    while let Some(delay) = moments.next(changed > 0) {
        rounds += 1;
        let next = if rate == "1/h" { "2/h" } else { "1/h" };
        kill(&hosts, &["set", "eth0", "--rate", next], delay);
        assert!(settled(&hosts), "killed after {delay:?}: not attached");
        let now = hosts.status()["limits"][0]["rate"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            now == rate || now == next,
            "{now} is neither {rate} nor {next}"
        );
        changed += u32::from(now == next);
        rate = now;
        assert_eq!(
            passed(&hosts),
            0,
            "killed after {delay:?}: the bucket is still empty"
        );
    }
    assert!(
        (1..rounds).contains(&changed),
        "moments on both sides: {changed} of {rounds}"
    );

    // The next command removes all leftovers.
    hosts.run("set eth0 --rate 3/h");
    let folder = hosts.pins();
    assert_eq!(
        fs::read_dir(&folder).unwrap().count(),
        17,
        "link, fifteen maps, one generation"
    );
    hosts.run("detach eth0");
    assert!(!folder.exists() && !has_program(&hosts));
}
