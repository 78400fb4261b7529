//! The fleet follows changes of settings while the agents run.

use limiter_tests::{
    eventually,
    fleet::{Bucket, source},
};
use serde_json::json;

use super::case::{Case, HOT, LIMIT, fleet, limits, limits_of};

/// The rate changes and changes back, first by `set`, then by the file. Then the host is detached and attached again.
#[test]
fn host_stays_a_member_while_its_rate_changes_and_until_it_is_detached() {
    let fleet = fleet!(&limits());
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
    case.recovers();
    let agent = &case.agents[2];
    let count = |words: &str| agent.printed().matches(words).count();
    assert_eq!((count("no longer"), count("shares the limits")), (0, 1));
    case.stop(stream);

    fleet.limiter(2, &["detach", "eth0"]).expect(0);
    agent.wait_until_it_says("eth0: no longer in fleet 'edge'");
    eventually("two hosts are left", || case.says(0)["hosts"] == 2);
    fleet.attach(2, &limits());
    eventually("it is a member again", || count("shares the limits") == 2);
    let stream = case.load();
    case.recovers();
    drop(stream);
}

/// The limit of one host is lower than those of the others, and then has another name.
#[test]
fn differing_limits_are_reported_by_all_hosts() {
    let fleet = fleet!(&limits());
    let case = Case::new(&fleet);
    let expect = |situation: &str, otherwise: [&[&str]; 3], missing: [&[&str]; 3]| {
        for host in 0..3 {
            eventually(&format!("host {host} knows: {situation}"), || {
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
    expect("all are equal", none, none);
    let set = |rate| fleet.limiter(2, &["set", "eth0", "--limit", "all", "--rate", rate]);
    set("50/s").expect(0);
    expect("one differs", [other, other, ours], none);
    case.agents[0]
        .wait_until_it_says("other hosts of fleet 'edge' have other settings for the limit 'all'");
    let status = fleet.limiter(0, &["status", "eth0"]).stdout;
    let line = "all: other hosts have 50/s, burst 10, per /32,/64; make it equal on all hosts\n";
    assert!(status.contains(line), "{status}");
    set("6000/m").expect(0);
    expect("the rates are equal, in two notations", none, none);
    fleet.reload(2, &limits().replace("\"all\"", "\"al\""));
    expect("one has another name", none, [&["al"], &["al"], &["all"]]);
    case.agents[2].wait_until_it_says("share a limit 'all', which this host does not have");
}
