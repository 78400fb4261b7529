//! Formats the results as a page, for the terminal and the repository.

use std::fmt::Write as _;

use super::{
    plan::{self, TARGETS},
    report::{Run, Target},
};

/// Maximum number of instructions of the verifier, in every supported kernel.
const LIMIT: u32 = 1_000_000;

/// The page in Markdown, with this `date`.
pub fn page(runs: &[Run], date: &str) -> String {
    let mut page = format!(
        "# Kernels\n\n\
         What `cargo xtask test --kernels --out docs/kernels.md` found on {date}. It boots Debian's kernels for virtual\n\
         machines, in software-emulated machines with two CPUs, and runs the tests of the kernel there.\n\n"
    );
    page += &summary(runs);
    page += &refusals(runs);
    page += &verified(runs);
    page += &each(runs);
    page += &left_out();
    page
}

/// A table with a row per target and a column per kernel.
pub fn summary(runs: &[Run]) -> String {
    let refusal = (
        "`attach` refuses in one clear line".to_owned(),
        plan::REFUSAL,
    );
    let titled = |target: &plan::Target| {
        let title = format!("{} (`{}`)", target.about, target.name);
        (title, target.name)
    };
    let mut text = heading("tests passed", runs);
    for (title, name) in [refusal].into_iter().chain(TARGETS.iter().map(titled)) {
        text += &line(&title, runs, |run| run.target(name).map(counted));
    }
    text += &line("complaints of the kernel itself", runs, |run| {
        Some(run.complaints.len().to_string())
    });
    text += &line("seconds", runs, |run| Some(run.seconds.to_string()));
    text + "\n"
}

fn counted(target: &Target) -> String {
    let of = target.tests.len();
    let passed = of - target.failed().count();
    match target.exit {
        Some(0) => format!("{passed} of {of}"),
        Some(status) => format!("**{passed} of {of}, exit {status}**"),
        None => format!("**{passed} of {of}, no end**"),
    }
}

fn refusals(runs: &[Run]) -> String {
    let mut text = String::new();
    for run in runs {
        for said in run
            .target(plan::REFUSAL)
            .iter()
            .flat_map(|target| &target.printed)
        {
            let _ = writeln!(text, "On {}:\n\n```\n{said}\n```\n", run.kernel);
        }
    }
    text
}

/// A table of the instructions that each kernel's verifier processed.
pub fn verified(runs: &[Run]) -> String {
    let tested = || runs.iter().filter(|run| run.target("verifier").is_some());
    if tested().next().is_none() {
        return String::new();
    }
    let counts = |run: &'_ Run| {
        run.target("verifier")
            .map_or(Vec::new(), |it| it.verified.clone())
    };
    let mut text = format!(
        "## The verifier\n\n\
         Instructions that the verifier looked at, for each entry in its dearest configuration (`tests/tests/verifier.rs`),\n\
         and the share of the {} at which it gives up.\n\n",
        grouped(LIMIT)
    );
    text += &heading("entry", tested());
    for entry in in_order(tested().flat_map(counts).map(|(entry, _)| entry)) {
        text += &line(&format!("`{entry}`"), tested(), |run| {
            let (_, count) = counts(run).into_iter().find(|(name, _)| *name == entry)?;
            let (percent, tenth) = (count / (LIMIT / 100), count / (LIMIT / 1_000) % 10);
            Some(format!("{} ({percent}.{tenth} %)", grouped(count)))
        });
    }
    text + "\n"
}

/// A table of all tests by name.
fn each(runs: &[Run]) -> String {
    let tested = || {
        runs.iter()
            .filter(|run| run.target(plan::REFUSAL).is_none())
    };
    let mut text = "## Each test\n\n".to_owned();
    text += &heading("test", tested());
    for target in &TARGETS {
        let tests = |run: &Run| {
            run.target(target.name)
                .map_or(Vec::new(), |it| it.tests.clone())
        };
        for name in in_order(tested().flat_map(tests).map(|(name, _)| name)) {
            text += &line(&format!("`{}::{name}`", target.name), tested(), |run| {
                let test = tests(run).into_iter().find(|(test, _)| *test == name);
                let said = test.map_or(
                    "**not run**",
                    |(_, passed)| {
                        if passed { "passed" } else { "**failed**" }
                    },
                );
                Some(said.to_owned())
            });
        }
    }
    text + "\n"
}

/// Each name once, in order of appearance.
fn in_order(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut names = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn left_out() -> String {
    let mut text = "## What is left out\n\n\
        Under emulation a program is loaded in seconds, and a CPU may stand still for as long. So only the tests\n\
        above are run: not floods, which have to be of a certain speed; not what waits for the clock of the wall; not what needs\n\
        programs that the small image does not have (systemd, a browser, tmux). Of these files some tests are left out to save\n\
        time:\n\n"
        .to_owned();
    for target in TARGETS.iter().filter(|target| !target.only.is_empty()) {
        let _ = writeln!(text, "- `tests/tests/{}.rs`", target.name);
    }
    text += "\n`nested::one_token_and_two_packets` fails at times for that alone: where a CPU stands still while it charges, the\n\
        other one's packet is refused as `contended`, not as `limit` (see KNOWN_ISSUES.md).\n";
    text
}

fn heading<'a>(first: &str, runs: impl IntoIterator<Item = &'a Run> + Clone) -> String {
    let kernels = line(first, runs.clone(), |run| Some(run.kernel.clone()));
    kernels + &line("---", runs, |_| Some("---".to_owned()))
}

/// A row of a table, with one cell per kernel.
fn line<'a>(
    first: &str,
    runs: impl IntoIterator<Item = &'a Run>,
    cell: impl Fn(&Run) -> Option<String>,
) -> String {
    let cell = |run| format!(" {} |", cell(run).unwrap_or_else(|| "-".to_owned()));
    let cells: String = runs.into_iter().map(cell).collect();
    format!("| {first} |{cells}\n")
}

/// Formats 1234567 as 1,234,567.
fn grouped(count: u32) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_are_in_groups_of_three() {
        for (count, text) in [
            (7, "7"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(count), text);
        }
    }
}
