//! All functions work at once for a few seconds. (`cargo xtask soak` runs them for half an hour.)

use std::time::Duration;

use limiter_tests::{
    need_kernel,
    soak::{self, Plan},
};

#[test]
fn all_operations_run_at_once() {
    need_kernel!();
    let report = soak::run(Plan {
        duration: Duration::from_secs(20),
        packets_per_second: 10_000,
        pause: Duration::from_millis(10),
        reports_progress: false,
    });
    println!("{}", report.page());
    for what in [
        "reload",
        "deny",
        "scrape",
        "status",
        "check of the bounds",
        "watch, ended",
        "a key in the live view",
        "watch, killed",
    ] {
        assert!(report.times(what) >= 2, "{what}: {report:#?}");
    }
}
