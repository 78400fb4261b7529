//! All functions work at once for a few seconds. (`cargo xtask soak` runs them for half an hour.)

use std::process::Command;

use limiter_tests::{
    command::{Outcome, binary},
    need_kernel,
};

#[test]
fn all_operations_run_at_once() {
    need_kernel!();
    let mut soak = Command::new(env!("CARGO_BIN_EXE_load"));
    soak.args(["soak", "--quick"])
        .env("LIMITER_BINARY", binary());
    let soak = Outcome::of("load soak --quick".to_owned(), soak.output().unwrap());
    soak.expect(0);
    println!("{}", soak.stdout);
    let actions = "reload deny ban unban allow set reset scrape status watch";
    let actions = actions.split(' ');
    for operation in actions.chain([
        "check of the bounds",
        "key in the live view",
        "list of a thousand changes",
    ]) {
        let row = format!("| {operation} | ");
        let count = soak.stdout.lines().find_map(|line| {
            let count = line.strip_prefix(&row)?.strip_suffix(" |")?;
            count.parse::<u64>().ok()
        });
        assert!(count >= Some(2), "{operation}: {soak:#?}");
    }
}
