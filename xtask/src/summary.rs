//! Reads the output of test programs, and prints a closing line.

use std::{process::ExitStatus, time::Duration};

/// Maximum number of flaky tests in a green run.
const FLAKY_MAX: usize = 2;

/// The results of a test program.
pub struct Report {
    /// Number of tests that passed.
    pub passed: usize,
    /// The names of failed tests; none for a program that ended in another way than by failed tests.
    pub failures: Vec<Option<String>>,
    /// The tests that passed.
    pub good: Vec<String>,
    /// Processor time in seconds, if it was measured.
    pub processor: f32,
}

impl Report {
    /// Reads the output of a program that ended with `status`.
    pub fn of(status: ExitStatus, printed: &str) -> Self {
        /// The exit code of a program with failed tests.
        const SOME_FAILED: Option<i32> = Some(101);
        let mut failures = Vec::new();
        if !status.success() {
            failures.extend(printed.lines().filter_map(failed_test).map(Some));
            if failures.is_empty() || status.code() != SOME_FAILED {
                failures.push(None);
            }
        }
        Self {
            passed: printed.lines().filter_map(passed).sum(),
            failures,
            good: printed.lines().filter_map(good_test).collect(),
            processor: 0.0,
        }
    }

    /// True if nothing failed.
    pub fn is_success(&self) -> bool {
        self.failures.is_empty()
    }
}

fn failed_test(line: &str) -> Option<String> {
    ended_test(line, " ... FAILED")
}

fn good_test(line: &str) -> Option<String> {
    ended_test(line, " ... ok")
}

fn ended_test(line: &str, outcome: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.strip_suffix(outcome)?;
    // libtest adds this suffix to the names of tests that should panic, but does not accept it as part of a name.
    Some(name.trim_end_matches(" - should panic").to_owned())
}

/// Reads N of `test result: ok. N passed; ...`.
fn passed(line: &str) -> Option<usize> {
    let result = line.strip_prefix("test result: ")?;
    let (_, counts) = result.split_once(". ")?;
    counts.split_once(" passed")?.0.parse().ok()
}

/// The results of all tests.
#[derive(Default)]
pub struct Summary {
    /// Number of tests that passed at first.
    pub passed: usize,
    /// Tests that failed twice.
    pub failed: Vec<String>,
    /// Tests that failed, then passed when run again.
    pub flaky: Vec<String>,
    /// The programs with their processor time in seconds, if it was measured.
    pub times: Vec<(String, f32)>,
}

impl Summary {
    /// True if the run is green.
    pub fn is_green(&self) -> bool {
        self.failed.is_empty() && self.flaky.len() <= FLAKY_MAX
    }

    /// Prints the programs that took the most processor time, the failures and the closing line.
    pub fn close(&self, skipped: usize, took: Duration) {
        if !self.times.is_empty() {
            println!("\n{}", table(&self.times));
        }
        for name in &self.failed {
            println!("=== FAILED: {name}");
        }
        println!("{}", self.line(skipped, took));
    }

    fn line(&self, skipped: usize, took: Duration) -> String {
        let flaky = match &self.flaky[..] {
            [] => String::new(),
            names => format!(" ({})", names.join(", ")),
        };
        let [failed, flakes] = [self.failed.len(), self.flaky.len()];
        let (passed, seconds) = (self.passed, took.as_secs());
        format!(
            "{passed} passed, {failed} failed, {skipped} skipped, {flakes} flaky{flaky}, in {seconds} s"
        )
    }
}

/// The sum of the times, and the longest ones.
fn table(times: &[(String, f32)]) -> String {
    const SHOWN: usize = 15;
    let mut longest: Vec<_> = times.iter().collect();
    longest.sort_by(|first, second| second.1.total_cmp(&first.1));
    let sum: f32 = times.iter().map(|(_, seconds)| seconds).sum();
    let mut table = format!("=== processor time: {sum:.0} s, most of it in");
    for (name, seconds) in longest.into_iter().take(SHOWN) {
        table += &format!("\n{seconds:8.1} s  {name}");
    }
    table
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn exit(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn test_output_is_counted_and_failures_are_named() {
        let printed = "running 3 tests\ntest a ... ok\ntest b::c ... FAILED\n\
            test d - should panic ... FAILED\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n";
        let report = Report::of(exit(101), printed);
        assert_eq!(
            (report.passed, &report.good[..]),
            (1, &["a".to_owned()][..])
        );
        assert_eq!(
            report.failures,
            ["b::c", "d"].map(|test| Some(test.to_owned()))
        );
        let report = Report::of(exit(0), "test result: ok. 7 passed; 0 failed\n");
        assert_eq!((report.passed, report.is_success()), (7, true));
        for status in [exit(1), ExitStatus::from_raw(9)] {
            let report = Report::of(status, "test a ... ok\n");
            assert_eq!(report.failures, [None]);
        }
    }

    #[test]
    fn two_flaky_tests_pass_and_a_third_or_a_failure_does_not() {
        let summary = |failed: usize, flaky: usize| Summary {
            passed: 5,
            failed: vec!["f".to_owned(); failed],
            flaky: vec!["x: y".to_owned(); flaky],
            times: Vec::new(),
        };
        assert!(summary(0, 0).is_green() && summary(0, 2).is_green());
        assert!(!summary(0, 3).is_green() && !summary(1, 0).is_green());
        assert_eq!(
            summary(1, 2).line(3, Duration::from_secs(61)),
            "5 passed, 1 failed, 3 skipped, 2 flaky (x: y, x: y), in 61 s"
        );
    }

    #[test]
    fn programs_with_the_most_processor_time_come_first() {
        let times = [("a", 0.5), ("b", 70.25), ("c", 3.0)];
        let times = times.map(|(name, seconds)| (name.to_owned(), seconds));
        assert_eq!(
            table(&times),
            "=== processor time: 74 s, most of it in\n    70.2 s  b\n     3.0 s  c\n     0.5 s  a"
        );
    }
}
