//! Three hosts with a shared limit, real XDP and a real store admit the rate of one host.

use std::time::Duration;

use limiter_tests::{
    fleet::{Bucket, Load, source},
    schema,
};

use super::case::{Case, HOT, LIMIT, fleet, limits, limits_of};

/// Panics unless as many packets passed as a full bucket has tokens, to within a twentieth.
fn expect_tokens(bucket: Bucket, nanoseconds: u64, passed: &[u64]) {
    let (due, total) = (
        bucket.tokens(nanoseconds),
        passed.iter().sum::<u64>() as f64,
    );
    println!("{passed:?} of {due:.0}");
    assert!(passed.iter().all(|passed| *passed > 0), "{passed:?}");
    let bounds = due * 0.95..=due * 1.05;
    assert!(bounds.contains(&total), "{total} of {due}");
}

/// The source's packets reach all hosts.
#[test]
fn three_hosts_together_admit_the_rate_of_one() {
    let limit = Bucket {
        rate: 20,
        burst: 10,
    };
    let fleet = fleet!(&limits_of(limit));
    let _case = Case::new(&fleet);
    let sent = fleet.send(&Load::of(source(HOT), 300, Duration::from_secs(30)));
    expect_tokens(limit, sent.longest(), &fleet.passed());
    if schema::has_validator("three_hosts_together_admit_the_rate_of_one") {
        let status = fleet.json(0, &["status", "eth0", "--json"]);
        assert!(status["interfaces"][0]["fleet"].is_object(), "{status:#}");
        assert_eq!(schema::faults("status", &status), "", "{status:#}");
    }
}

/// All packets of a source reach one host, and then another one.
#[test]
fn source_on_one_host_gets_its_whole_rate_and_no_more_after_a_move() {
    let fleet = fleet!(&limits());
    let case = Case::new(&fleet);
    fleet.pin(source(HOT), 0);
    let sent = fleet.send(&Load::of(source(HOT), 300, Duration::from_secs(2)));
    let passed = case.figures(source(HOT), "passed");
    // The host passes as much as without a fleet.
    let alone = LIMIT.admits(&sent.times(|_| true));
    assert!(alone.contains(&passed[0]), "{passed:?} of {alone:?}");
    assert_eq!(passed[1..], [0, 0]);

    let source = source(HOT + 10);
    fleet.pin(source, 1);
    let stream = fleet.start(&Load::of(source, 300, Duration::from_secs(6)));
    for (packets, host) in [(450, 2), (900, 1), (1_350, 0)] {
        stream.wait_for(packets);
        fleet.pin(source, host);
    }
    let sent = stream.finish();
    expect_tokens(LIMIT, sent.longest(), &case.figures(source, "passed"));
}
