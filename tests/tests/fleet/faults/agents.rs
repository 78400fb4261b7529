//! The fleet's bound holds while agents die, stop or start.

use std::{thread, time::Duration};

use limiter_tests::{
    eventually,
    fleet::{Bucket, Load, source},
};
use nix::sys::signal::Signal;

use super::{case::Case, fleet};
use crate::shared::{limits_of, url};

/// The two other hosts keep sharing their limit.
#[test]
fn host_of_a_killed_agent_keeps_its_limit_and_rejoins() {
    let fleet = fleet!();
    let mut case = Case::new(&fleet);
    let stream = case.load();
    let (killed, _) = case.agents.pop().unwrap().end(Signal::SIGKILL);
    assert!(!killed.success());
    let says = case.says(2);
    assert_eq!(says["agent"], false, "{says}");
    for host in [0, 1] {
        eventually("the killed agent is no longer counted", || {
            case.says(host)["hosts"] == 2
        });
        assert!(case.says(host)["error"].is_null());
    }
    let begin = case.mark();
    thread::sleep(Duration::from_millis(500));
    // Packets that the other two hosts pass, and that the host passes.
    let alone = case.mark();
    assert!(alone.passed[2] > begin.passed[2], "it limits alone");
    case.agents.push(fleet.agent(2, &url(case.store.port), &[]));
    case.recovered(0..3);
    case.bound_holds();
    case.end(stream);
}

#[test]
fn agent_that_starts_takes_over_a_debt() {
    const DEEP: &str = "local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] \
        return redis.call('SET', KEYS[1], struct.pack('<dddd', now, 1000, 60e9, now + 1e9))";
    let fleet = fleet!(&limits_of(Bucket { rate: 1, burst: 10 }));
    let mut case = Case::new(&fleet);
    let one = source(9);
    fleet.pin(one, 2);
    let load = Load::of(one, 100, Duration::from_millis(200));
    assert!(fleet.send(&load).count() > 10);
    let key = || case.store.cli(&["KEYS", "*:s:all:203.0.113.9"]);
    eventually("the store has a record of the source", || !key().is_empty());
    let key = key();
    drop(case.agents.pop());
    case.store.cli(&["EVAL", DEEP, "1", &key]);
    case.agents.push(fleet.agent(2, &url(case.store.port), &[]));
    // The bucket is ten seconds deep. An empty bucket without debt would have a token after one second.
    eventually("the bucket waits for the debt", || {
        let waits = &case.fleet.check(2, one)["limits"][0]["retry_after_seconds"];
        waits.as_f64() > Some(10.0)
    });
}

#[test]
fn agent_recovers_after_being_stopped() {
    let fleet = fleet!();
    let case = Case::new(&fleet);
    let stream = case.load();
    case.agents[1].signal(Signal::SIGSTOP);
    let begin = case.mark();
    thread::sleep(Duration::from_secs(2));
    let end = case.mark();
    assert!(end.passed[1] > begin.passed[1], "no packets pass");
    case.agents[1].signal(Signal::SIGCONT);
    case.recovered(0..3);
    case.bound_holds();
    case.end(stream);
}

/// A second agent would count all packets twice.
#[test]
fn second_agent_in_a_network_namespace_is_refused() {
    let fleet = fleet!();
    let case = Case::new(&fleet);
    let (status, text) = fleet.agent(0, &url(case.store.port), &[]).wait();
    assert!(!status.success());
    assert!(
        text.contains("an agent runs in this network namespace already"),
        "{text}"
    );
    assert_eq!(text.trim().lines().count(), 1, "{text}");
    // The first agent continues.
    assert_eq!(case.says(0)["hosts"], 3);
}
