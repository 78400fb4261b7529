//! The results of the tests on one kernel, read from the output of the virtual machine.

use std::{fmt, fmt::Write as _, os::unix::process::ExitStatusExt, process::ExitStatus};

use crate::summary::Report;

/// The results on one kernel.
#[derive(Debug, Default)]
pub struct Run {
    /// Name of the kernel on the command line.
    pub name: &'static str,
    /// The kernel's own version text.
    pub kernel: String,
    /// The targets, in the order in which they ran.
    pub targets: Vec<Target>,
    /// Problems other than failed tests.
    pub complaints: Vec<String>,
    /// Duration in seconds.
    pub seconds: u64,
}

/// The results of one test file.
#[derive(Debug, Default)]
pub struct Target {
    /// Description and name of the file.
    pub title: String,
    /// All lines printed.
    pub printed: String,
    /// The exit code; none if the target did not end.
    exit: Option<i32>,
}

impl Run {
    /// Reads the output of `init.sh`, and the kernel's console.
    pub fn read(name: &'static str, results: &str, console: &str) -> Self {
        let mut run = Self {
            name,
            ..Self::default()
        };
        let mut has_ended = false;
        for line in results.lines() {
            let mark = line.strip_prefix("=== ");
            match mark.map(|mark| mark.split_once(' ').unwrap_or((mark, ""))) {
                Some(("kernel", kernel)) => kernel.clone_into(&mut run.kernel),
                Some(("end", _)) => has_ended = true,
                Some(("target", title)) => run.targets.push(Target {
                    title: title.to_owned(),
                    ..Target::default()
                }),
                mark => match (run.targets.last_mut(), mark) {
                    (Some(target), Some(("exit", code))) => target.exit = code.parse().ok(),
                    (Some(target), _) => target.printed += &format!("{line}\n"),
                    (None, _) => run.complaints.push(line.to_owned()),
                },
            }
        }
        run.complaints.extend(complaints(console));
        if !has_ended {
            let last = run.targets.last().map_or("boot", |target| &target.title);
            run.complaints.push(format!("the tests stopped at: {last}"));
        }
        run
    }

    /// The output of failed targets, and all other problems; empty if there are none.
    pub fn failures(&self) -> String {
        let mut text = String::new();
        for complaint in &self.complaints {
            let _ = writeln!(text, "=== {self}: {complaint}");
        }
        for target in self.targets.iter().filter(|target| !target.is_success()) {
            let (title, exit) = (&target.title, target.exit);
            let _ = writeln!(text, "=== {self}, {title}, exit {exit:?}:");
            text += &target.printed;
        }
        text
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linux {}", self.name)
    }
}

impl Target {
    /// True if every test passed, and there was at least one.
    fn is_success(&self) -> bool {
        let report = self.report();
        report.is_success() && report.passed > 0
    }

    /// Number of tests that passed, with other outcomes.
    pub fn counted(&self) -> String {
        let report = self.report();
        let all = report.passed + report.failures.len();
        let counted = format!("{} of {all}", report.passed);
        match self.is_success() {
            true => counted,
            false => format!("**{counted}, exit {:?}**", self.exit),
        }
    }

    fn report(&self) -> Report {
        let status = ExitStatus::from_raw(self.exit.unwrap_or(1) << 8);
        Report::of(status, &self.printed)
    }
}

/// The kernel's messages about its own bugs.
fn complaints(console: &str) -> impl Iterator<Item = String> {
    const SIGNS: [&str; 5] = [
        "WARNING: ",
        "BUG: ",
        "Oops",
        "general protection",
        "Kernel panic",
    ];
    // Linux warns about a card whose offloads cannot be switched off (KNOWN_ISSUES.md).
    const KNOWN: &str = " generic_xdp_install+";
    let bad = |line: &&str| SIGNS.iter().any(|sign| line.contains(sign)) && !line.contains(KNOWN);
    let found = console.lines().filter(bad).take(5);
    found.map(|line| format!("the kernel: {}", line.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "=== kernel 6.1.0\n=== target a\nrunning 1 test\ntest x ... ok\n\
        test result: ok. 1 passed; 0 failed\n=== exit 0\n=== end\n";

    #[test]
    fn tests_are_counted_and_each_problem_is_a_failure() {
        let run = Run::read("6.1", GOOD, "Linux version\n");
        assert_eq!(run.failures(), "");
        assert_eq!(
            (&*run.kernel, &*run.targets[0].counted()),
            ("6.1.0", "1 of 1")
        );
        let wrong = [
            ("exit 0", "exit 101"),
            ("=== exit 0\n", ""),
            ("=== end\n", ""),
            ("1 passed", "0 passed"),
        ];
        for (right, wrong) in wrong {
            let text = GOOD.replace(right, wrong);
            assert_ne!(Run::read("6.1", &text, "").failures(), "", "{text}");
        }
        assert_ne!(Run::read("6.1", "", "").failures(), "");
        for bug in ["[ 1.0] Kernel panic - x\n", "[ 1.0] WARNING: CPU: 0\n"] {
            assert_ne!(Run::read("6.1", GOOD, bug).failures(), "");
        }
        let known =
            "[ 1.0] WARNING: CPU: 0 at net/core/dev.c:1732 generic_xdp_install+0x10a/0x180\n";
        assert_eq!(Run::read("6.1", GOOD, known).failures(), "");
    }
}
