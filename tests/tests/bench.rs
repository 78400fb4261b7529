//! The benchmark runs, and finds that the program did what was to be measured. Its figures mean
//! nothing here.

use std::process::Command;

use limiter_tests::{command::Outcome, need_kernel};

#[test]
fn the_benchmark_runs() {
    need_kernel!();
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .arg("--quick")
        .output()
        .unwrap();
    let outcome = Outcome::of("bench --quick".to_owned(), output);
    outcome.expect(0);
    for word in ["bare drop", "limiter, frags", "clock", "lookup"] {
        assert!(
            outcome.stdout.contains(word),
            "wanted '{word}': {outcome:#?}"
        );
    }
}
