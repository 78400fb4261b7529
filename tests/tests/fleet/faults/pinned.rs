//! A source that reaches only one host gets exactly the fleet's rate.

use std::time::Duration;

use limiter_tests::fleet::{Load, source};

use super::{
    case::{Case, HOT, LIMIT},
    fleet,
};

/// All packets of the source reach one host, and then another one.
#[test]
fn source_on_one_host_gets_its_whole_rate_and_no_more_after_a_move() {
    let fleet = fleet!();
    let case = Case::new(&fleet);
    fleet.pin(source(HOT), 0);
    let load = |seconds| Load::of(source(HOT), 300, Duration::from_secs(seconds));
    let sent = fleet.send(&load(2));
    let passed = case.figures(source(HOT), "passed");
    // The host passes as much as without a fleet.
    let alone = LIMIT.admits(&sent.times(|_| true));
    println!("{passed:?} of {alone:?}");
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
    let passed = case.figures(source, "passed");
    let total = passed.iter().sum::<u64>() as f64;
    let due = LIMIT.tokens(sent.longest());
    println!("{passed:?} of {due:.0}");
    assert!(passed.iter().all(|passed| *passed > 0), "{passed:?}");
    assert!(
        (due * 0.95..=due * 1.05).contains(&total),
        "{total} of {due}"
    );
}
