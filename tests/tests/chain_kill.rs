//! `kill -9` before each step of `attach --chain` and of `detach` never loses the other program.

use limiter_tests::{
    command::prepared,
    eventually,
    foreign::{FRAGS, Foreign, PLAIN, on_server},
    hosts::Hosts,
    need, need_kernel,
    steps::{End, run_until},
};

const CHAIN: [&str; 7] = ["attach", "eth0", "--rate", "1/h", "--burst", "6", "--chain"];
/// Upper bound on the steps of a command.
const MOST: usize = 200;

fn killed_at(hosts: &Hosts, arguments: &[&str], step: usize) -> End {
    let run = || run_until(&mut prepared(arguments), step);
    hosts.server.namespace.run(run).unwrap().unwrap()
}

/// True if limiter is attached, by its pins. (The kernel releases the link of a dead process with a delay.)
fn is_attached(hosts: &Hosts) -> bool {
    hosts.pins().join("link").exists()
}

/// Panics unless `status` and `doctor` report the true state.
fn expect_truth(hosts: &Hosts, foreign: &Foreign, at: &str) {
    let own = Some(("native", foreign.id));
    if is_attached(hosts) {
        assert_ne!(on_server(hosts), own, "{at}");
        hosts.run("status eth0");
        return;
    }
    let settled = || [None, own].contains(&on_server(hosts));
    eventually("no program, or the other program, is attached", settled);
    if on_server(hosts) == own {
        hosts
            .limiter("status eth0")
            .expect_error(1, &["not attached"]);
    } else {
        for command in ["status", "doctor"] {
            let outcome = hosts.limiter(&[command, "eth0"]);
            outcome.expect(1);
            assert!(
                outcome
                    .stderr
                    .contains("`limiter detach eth0` puts it back"),
                "{at}: {outcome:#?}"
            );
        }
    }
}

/// Panics unless the state is as before limiter was attached.
fn expect_back(hosts: &Hosts, foreign: &Foreign, at: &str) {
    assert_eq!(on_server(hosts), Some(("native", foreign.id)), "{at}");
    assert!(!hosts.pins().exists(), "{at}: pins are left");
}

#[test]
fn killed_attach_does_not_lose_the_foreign_program() {
    need_kernel!();
    if !need::tool("killed_attach_does_not_lose_the_foreign_program", "bpftool") {
        return;
    }
    let foreign = Foreign::load(FRAGS);
    let hosts = Hosts::new();
    foreign.attach(&hosts, "xdpdrv");
    let mut gone = 0;
    for step in 0..MOST {
        let end = killed_at(&hosts, &CHAIN, step);
        let at = format!("killed before step {step}, {end:?}");
        expect_truth(&hosts, &foreign, &at);
        gone += u32::from(on_server(&hosts).is_none());
        // After every second step, `attach` follows. Otherwise `detach` follows at once.
        if step % 2 == 0 && !is_attached(&hosts) {
            hosts.limiter(&CHAIN).expect(0);
        }
        let pins = hosts.pins().exists();
        let detach = hosts.limiter("detach eth0");
        detach.expect(0);
        let unchanged = detach.stdout.contains("unchanged");
        assert_eq!(unchanged, !pins, "{at}: {detach:#?}");
        expect_back(&hosts, &foreign, &at);
        if let End::Done(status) = end {
            assert_eq!(status, 0);
            assert!(step > 10, "only {step} steps");
            assert!(gone >= 2, "never killed between the two programs: {gone}");
            return;
        }
    }
    panic!("more than {MOST} steps");
}

#[test]
fn killed_detach_does_not_lose_the_foreign_program() {
    need_kernel!();
    if !need::tool("killed_detach_does_not_lose_the_foreign_program", "bpftool") {
        return;
    }
    let foreign = Foreign::load(PLAIN);
    let hosts = Hosts::new();
    foreign.attach(&hosts, "xdpdrv");
    let mut gone = 0;
    for step in 0..MOST {
        if !is_attached(&hosts) {
            hosts.limiter(&CHAIN).expect(0);
        }
        let end = killed_at(&hosts, &["detach", "eth0"], step);
        let at = format!("killed before step {step}, {end:?}");
        expect_truth(&hosts, &foreign, &at);
        gone += u32::from(on_server(&hosts).is_none());
        if let End::Done(status) = end {
            assert_eq!(status, 0);
            expect_back(&hosts, &foreign, &at);
            assert!(step > 5, "only {step} steps");
            assert!(gone >= 2, "never killed between the two programs: {gone}");
            return;
        }
        if hosts.pins().exists() && !is_attached(&hosts) {
            hosts.run("detach eth0");
            expect_back(&hosts, &foreign, &at);
        }
    }
    panic!("more than {MOST} steps");
}
