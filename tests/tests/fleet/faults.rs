//! A fleet survives faults under load: each host's limits hold, and a source below its rate is not refused.
//!
//! The fleet's bound holds again after the fault.

use std::{thread, time::Duration};

use limiter_tests::{
    eventually,
    fleet::{Bucket, Load, source},
};
use nix::sys::signal::Signal;

use super::case::{Case, fleet, limits, limits_of};

struct Fault {
    name: &'static str,
    begin: fn(&mut Case<'_>),
    /// The hosts whose agents must report that they are alone. If there are some, the agents of all others must not.
    alone: &'static [usize],
    /// The reason that they must report.
    why: &'static str,
    end: fn(&mut Case<'_>),
}

const ALL: &[usize] = &[0, 1, 2];

const FAULTS: [Fault; 6] = [
    Fault {
        name: "a host's link to the store is cut",
        begin: |case| case.fleet.network.set_link(2, "nomaster"),
        alone: &[2],
        why: "the store at",
        end: |case| case.fleet.network.set_link(2, "master store0"),
    },
    Fault {
        name: "the store does not answer",
        begin: |case| case.store.pause(),
        alone: ALL,
        why: "has not answered within",
        end: |case| case.store.resume(),
    },
    Fault {
        name: "the store restarts empty",
        begin: |case| case.store.stop(),
        alone: ALL,
        why: "cannot be reached",
        end: |case| case.store.go_on(),
    },
    Fault {
        name: "the store is full",
        begin: |case| case.store.fill(true),
        alone: ALL,
        why: "is full: raise its maxmemory",
        end: |case| {
            // After this time, the store knows of no member.
            thread::sleep(Duration::from_secs(3));
            case.store.fill(false);
        },
    },
    Fault {
        name: "an agent is stopped",
        begin: |case| case.agents[1].signal(Signal::SIGSTOP),
        alone: &[],
        why: "",
        end: |case| case.agents[1].signal(Signal::SIGCONT),
    },
    Fault {
        name: "an agent is killed",
        begin: |case| {
            let (killed, _) = case.agents.pop().unwrap().end(Signal::SIGKILL);
            assert!(!killed.success());
            assert_eq!(case.says(2)["agent"], false);
            for host in [0, 1] {
                let condition = "the killed agent is no longer counted";
                eventually(condition, || case.says(host)["hosts"] == 2);
            }
        },
        alone: &[],
        why: "",
        end: |case| case.agents.push(case.agent(2)),
    },
];

#[test]
fn hosts_keep_their_limits_through_faults_and_share_again_afterwards() {
    for fault in FAULTS {
        println!("{}", fault.name);
        let fleet = fleet!(&limits());
        let mut case = Case::new(&fleet);
        let stream = case.load();
        (fault.begin)(&mut case);
        for host in fault.alone {
            case.grows_stale(*host, fault.why);
        }
        for host in (0..3).filter(|host| !fault.alone.contains(host) && !fault.alone.is_empty()) {
            assert!(case.says(host)["error"].is_null(), "host {host}");
        }
        let begin = case.mark();
        thread::sleep(Duration::from_millis(500));
        let end = case.mark();
        for host in 0..3 {
            assert!(end.passed[host] > begin.passed[host], "it limits alone");
        }
        (fault.end)(&mut case);
        case.recovers();
        for agent in &case.agents {
            let text = agent.printed();
            assert!(text.matches("is full").count() <= 1, "{text}");
            // The first agent that recovers does not report a fleet of one host, which has another bound.
            let back = text.split("applies the limits alone").nth(1);
            assert!(
                back.is_none_or(|back| !back.contains("has 1 host")),
                "{text}"
            );
        }
        case.end(stream);
    }
}

#[test]
fn agent_that_starts_takes_over_a_debt() {
    let fleet = fleet!(&limits_of(Bucket { rate: 1, burst: 10 }));
    let mut case = Case::new(&fleet);
    let first = source(9);
    fleet.pin(first, 2);
    let load = Load::of(first, 100, Duration::from_millis(200));
    assert!(fleet.send(&load).packets.len() > 10);
    eventually("the store has a record of the source", || {
        case.store.owes_a_minute("203.0.113.9")
    });
    drop(case.agents.pop());
    assert!(case.store.owes_a_minute("203.0.113.9"));
    case.agents.push(case.agent(2));
    // The bucket is ten seconds deep. An empty bucket without debt would have a token after one second.
    eventually("the bucket waits for the debt", || {
        let waits = &case.fleet.check(2, first)["limits"][0]["retry_after_seconds"];
        waits.as_f64() > Some(10.0)
    });
    // A second agent would count all packets twice.
    let (status, text) = case.agent(0).wait();
    assert!(!status.success());
    let refusal = "an agent runs in this network namespace already";
    assert!(
        text.contains(refusal) && text.trim().lines().count() == 1,
        "{text}"
    );
    assert_eq!(case.says(0)["error"], serde_json::Value::Null);
}
