//! The results of the tests on one kernel, read from the output of the virtual machine.

use super::{plan, releases::Release};

/// The exit status of a refused command.
const REFUSED: i32 = 1;

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
    /// Name of the file.
    pub name: String,
    /// Each test, and whether it passed.
    pub tests: Vec<(String, bool)>,
    /// Instructions verified, by entry.
    pub verified: Vec<(String, u32)>,
    /// All lines printed.
    pub printed: Vec<String>,
    /// The exit status; none if the target did not end.
    pub exit: Option<i32>,
}

impl Run {
    /// Reads the tests' output, and the kernel's console.
    pub fn read(release: &Release, results: &str, console: &str) -> Self {
        let mut run = Self {
            name: release.name,
            ..Self::default()
        };
        let mut ended = false;
        for line in results.lines() {
            match line
                .strip_prefix("=== ")
                .and_then(|said| said.split_once(' '))
            {
                Some(("kernel", kernel)) => kernel.clone_into(&mut run.kernel),
                Some(("seconds", seconds)) => run.seconds = seconds.parse().unwrap_or_default(),
                Some(("late", seconds)) => run
                    .complaints
                    .push(format!("no end after {seconds} seconds")),
                Some(("target", name)) => run.targets.push(Target::named(name)),
                said => match run.targets.last_mut() {
                    _ if line == "=== end" => ended = true,
                    Some(target) => match said {
                        Some(("exit", status)) => target.exit = status.parse().ok(),
                        _ => target.hear(line),
                    },
                    None => run.complaints.push(line.to_owned()),
                },
            }
        }
        run.complaints.extend(complaints(console));
        if !ended {
            run.complaints.push(run.how_it_ended());
        }
        if run.targets.is_empty() {
            run.complaints.push("no test was begun".to_owned());
        }
        if !release.supported {
            run.targets.iter_mut().for_each(Target::judge_refusal);
        }
        run
    }

    fn how_it_ended(&self) -> String {
        let last = self
            .targets
            .last()
            .map_or("the first test", |target| &target.name);
        format!("it stopped in the middle, at {last}")
    }

    /// Whether there are no failures and no other problems.
    pub fn passed(&self) -> bool {
        self.complaints.is_empty() && self.targets.iter().all(Target::passed)
    }

    /// The target with this name.
    pub fn target(&self, name: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.name == name)
    }
}

impl Target {
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    fn hear(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["test", name, "...", verdict] => self.tests.push((name.to_owned(), verdict == "ok")),
            ["verified", entry, count] => {
                let count = count.parse().unwrap_or(u32::MAX);
                self.verified.push((entry.to_owned(), count));
            }
            _ => {}
        }
        self.printed.push(line.to_owned());
    }

    /// Whether every test passed, and there was at least one.
    pub fn passed(&self) -> bool {
        self.exit == Some(0) && !self.tests.is_empty() && self.failed().next().is_none()
    }

    /// The names of failed tests.
    pub fn failed(&self) -> impl Iterator<Item = &str> {
        let failed = self.tests.iter().filter(|(_, passed)| !passed);
        failed.map(|(name, _)| name.as_str())
    }

    /// Checks a refused command: it must fail with one line that names the problem (the version) and the solution
    /// (another version).
    fn judge_refusal(&mut self) {
        let line = match &self.printed[..] {
            [line] => line.as_str(),
            _ => "",
        };
        let clear =
            line.starts_with("limiter: ") && line.contains("kernel") && line.contains("5.15");
        let refused = self.exit == Some(REFUSED) && clear;
        self.tests.push((plan::REFUSAL.to_owned(), refused));
        if refused {
            self.exit = Some(0);
        }
    }
}

/// The kernel's messages about its own bugs.
fn complaints(console: &str) -> Vec<String> {
    const SIGNS: [&str; 5] = [
        "WARNING: ",
        "BUG: ",
        "Oops",
        "general protection",
        "Kernel panic",
    ];
    let bad = |line: &&str| SIGNS.iter().any(|sign| line.contains(sign));
    let found = console.lines().filter(bad).take(5);
    found
        .map(|line| format!("the kernel: {}", line.trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{super::releases::release, *};

    const NEW: Release = release("6.1", &[], true);
    const OLD: Release = release("5.10", &[], false);
    const GOOD: &str = "=== kernel 6.1.0\n=== target a\nrunning 1 test\ntest x ... ok\nverified limiter 75923\n=== exit 0\n=== end\n";

    #[test]
    fn what_passed_and_what_was_counted() {
        let run = Run::read(&NEW, GOOD, "Linux version\n");
        assert!(run.passed(), "{run:?}");
        assert_eq!(run.kernel, "6.1.0");
        let target = run.target("a").unwrap();
        assert_eq!(target.tests, [("x".to_owned(), true)]);
        assert_eq!(target.verified, [("limiter".to_owned(), 75_923)]);
    }

    #[test]
    fn whatever_is_wrong_is_a_failure() {
        let wrong = [
            ("ok\n", "FAILED\n"),
            ("exit 0", "exit 101"),
            ("=== exit 0\n", ""),
            ("=== end\n", ""),
            ("test x ... ok\n", ""),
        ];
        for (right, wrong) in wrong {
            let text = GOOD.replace(right, wrong);
            assert!(!Run::read(&NEW, &text, "").passed(), "{text}");
        }
        assert!(!Run::read(&NEW, "", "").passed());
        assert!(!Run::read(&NEW, GOOD, "[ 1.0] Kernel panic - not syncing: x\n").passed());
        assert!(!Run::read(&NEW, GOOD, "[ 1.0] WARNING: CPU: 0 PID: 1 at net/x.c\n").passed());
    }

    #[test]
    fn a_refusal_is_one_clear_line_and_a_failed_command() {
        let said = |line: &str, status: i32| {
            let text = format!(
                "=== kernel 5.10.0\n=== target refusal\n{line}\n=== exit {status}\n=== end\n"
            );
            Run::read(&OLD, &text, "").passed()
        };
        let clear = "limiter: this kernel is 5.10.0, and 5.15 is needed: boot a newer one";
        assert!(said(clear, 1));
        assert!(!said(clear, 0));
        assert!(!said("error: Invalid argument", 1));
        assert!(!said(&format!("{clear}\nand more"), 1));
    }
}
