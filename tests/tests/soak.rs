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
    });
    println!("{}", report.page);
    let actions = "reload deny ban unban allow set reset scrape status watch";
    let actions = actions.split(' ');
    for operation in actions.chain([
        "check of the bounds",
        "key in the live view",
        "list of a thousand changes",
    ]) {
        assert!(report.done[operation] >= 2, "{operation}: {report:#?}");
    }
}
