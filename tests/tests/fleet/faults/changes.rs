//! The fleet follows changes of settings while the agents run.

use limiter_tests::{
    eventually,
    fleet::{Bucket, source},
};
use nix::sys::signal::Signal;
use serde_json::json;

use super::{
    case::{Case, HOT, LIMIT, limits},
    fleet,
};
use crate::shared::{limits_of, url};

/// The rate changes and changes back, first by `set`, then by the file.
#[test]
fn host_stays_a_member_when_its_rate_changes() {
    let fleet = fleet!();
    let case = Case::new(&fleet);
    let stream = case.load();
    for rate in ["50/s", "90/s", "100/s"] {
        let set = ["set", "eth0", "--limit", "all", "--rate", rate];
        fleet.limiter(2, &set).expect(0);
        let now = case.figures(source(HOT), "passed")[2];
        eventually("the host still passes packets", || {
            case.figures(source(HOT), "passed")[2] > now
        });
    }
    fleet.reload(2, &limits_of(Bucket { rate: 50, ..LIMIT }));
    fleet.reload(2, &limits());
    case.recovered(0..3);
    case.bound_holds();
    let text = case.agents[2].printed();
    assert!(!text.contains("no longer"), "{text}");
    assert_eq!(text.matches("shares the limits").count(), 1, "{text}");
    let sent = stream.stop();
    let most = LIMIT.tokens(sent.longest());
    for (host, passed) in case.figures(source(HOT), "passed").iter().enumerate() {
        assert!(*passed as f64 <= most, "host {host}: {passed} of {most}");
    }
}

/// The limit of one host is higher, and then lower, than those of the others.
#[test]
fn differing_limits_are_reported_by_all_hosts() {
    let fleet = fleet!();
    let mut case = Case::new(&fleet);
    let expect = |case: &Case<'_>, otherwise: [&[&str]; 3], missing: [&[&str]; 3]| {
        for host in 0..3 {
            eventually(&format!("host {host} knows"), || {
                let says = case.says(host);
                says["limits"][0]["conflicts"] == json!(otherwise[host])
                    && says["missing_limits"] == json!(missing[host])
            });
        }
    };
    let (none, ours, other) = (
        [&[][..]; 3],
        &["100/s, burst 10, per /32,/64"][..],
        &["50/s, burst 10, per /32,/64"][..],
    );
    expect(&case, none, none);
    let set = |rate| fleet.limiter(2, &["set", "eth0", "--limit", "all", "--rate", rate]);
    set("50/s").expect(0);
    expect(&case, [other, other, ours], none);
    case.agents[0]
        .wait_until_it_says("other hosts of fleet 'edge' have other settings for the limit 'all'");
    let status = fleet.limiter(0, &["status", "eth0"]).stdout;
    let line = "all: other hosts have 50/s, burst 10, per /32,/64; make it equal on all hosts\n";
    assert!(status.contains(line), "{status}");
    // The rate is equal, in another notation.
    set("6000/m").expect(0);
    expect(&case, none, none);
    // The limits of a member that has left do not count.
    set("50/s").expect(0);
    expect(&case, [other, other, ours], none);
    let _ = case.agents.pop().unwrap().end(Signal::SIGTERM);
    eventually("the limits of the member are removed", || {
        let held = case
            .store
            .cli(&["ZRANGE", "limiter:{edge}:limits", "0", "-1"]);
        held.contains(" 100/s,") && !held.contains(" 50/s,")
    });
    set("100/s").expect(0);
    case.agents.push(fleet.agent(2, &url(case.store.port), &[]));
    expect(&case, none, none);
    fleet.reload(1, &limits().replace("\"all\"", "\"al\""));
    expect(&case, none, [&["al"], &["all"], &["al"]]);
    case.agents[1].wait_until_it_says("share a limit 'all', which this host does not have");
    fleet.reload(1, &limits());
    expect(&case, none, none);
}

/// The store is away while a limit is removed and another one is added.
#[test]
fn charges_of_a_removed_limit_count_for_no_other_limit() {
    let fleet = fleet!();
    let mut case = Case::new(&fleet);
    let stream = case.load();
    case.store.stop();
    case.grows_stale(2);
    fleet.reload(2, &limits().replace("\"all\"", "\"other\""));
    eventually("the agent has the new limit", || {
        case.says(2)["limits"][0]["name"] == "other"
    });
    case.store.restart_empty();
    case.recovered(0..3);
    let records = case.store.cli(&["KEYS", "*:s:*"]);
    let of = |limit: &str| records.matches(&format!(":s:{limit}:")).count();
    let of = ["all", "other", "gone"].map(of);
    assert!(of[0] > 0 && of[2] == 0, "{of:?}: {records}");
    drop(stream);
}

/// A host without limits is not a member.
#[test]
fn detached_host_leaves_the_fleet_and_rejoins_when_attached() {
    let fleet = fleet!();
    let case = Case::new(&fleet);
    let stream = case.load();
    fleet.limiter(1, &["detach", "eth0"]).expect(0);
    let agent = &case.agents[1];
    agent.wait_until_it_says("eth0: no longer in fleet 'edge'");
    eventually("two hosts are left", || case.says(0)["hosts"] == 2);
    for host in [0, 2] {
        let says = case.says(host);
        assert!(says["error"].is_null(), "{says}");
    }
    fleet.attach(1, &limits());
    eventually("the host is a member again", || {
        agent.printed().matches("shares the limits").count() == 2
    });
    case.recovered(0..3);
    case.bound_holds();
    drop(stream);
}
