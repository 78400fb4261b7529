//! Without sharing, each host of a fleet applies its limit alone.

use std::time::Duration;

use limiter_tests::fleet::{Load, between, source};

use crate::shared::{LIMIT, fleet, limits};

#[test]
fn local_limits_alone_admit_three_times_the_rate() {
    let alone = limits()
        .replace("fleet = \"edge\"\n", "")
        .replace("scope = \"fleet\"\n", "");
    let fleet = fleet!(&alone);
    for host in 0..3 {
        assert_eq!(fleet.status(host)["mode"], "native");
    }
    let load = Load::of(source(7), 300, Duration::from_millis(3_500));
    let sent = fleet.send(&load);
    let passed = fleet.passed();
    assert_eq!(sent.count(), 1_050);
    assert_eq!(fleet.seen(), [350; 3], "one by one, evenly");

    let of_host = |host| LIMIT.admits(&sent.times(|place| place % 3 == host));
    let bounds: Vec<_> = (0..3).map(of_host).collect();
    println!(
        "{passed:?} of {bounds:?} in {} ms",
        sent.longest() / 1_000_000
    );
    for (host, (passed, bounds)) in passed.iter().zip(&bounds).enumerate() {
        assert!(
            bounds.contains(passed),
            "host {host}: {passed} of {bounds:?}"
        );
    }
    assert!(between(&bounds).contains(&fleet.admitted()));
    // The number of packets that one host admits.
    let one = *LIMIT.admits(&sent.times(|_| true)).end() as f64;
    let times = fleet.admitted() as f64 / one;
    assert!((2.5..=3.0).contains(&times), "{times} times {one}");
}
