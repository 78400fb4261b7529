//! The results as a page: for the terminal, and for the repository.

use std::fmt::Write as _;

use super::{
    plan::{self, TARGETS},
    report::{Run, Target},
};

/// Where every supported kernel's verifier gives up.
const LIMIT: u32 = 1_000_000;

/// The page, in Markdown, made on this `date`.
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

/// A row for each target, a column for each kernel.
pub fn summary(runs: &[Run]) -> String {
    let tested: Vec<_> = runs.iter().collect();
    let mut text = heading("tests passed", &tested);
    let row = |about: &str, name: &str| {
        let cells = tested.iter().map(|run| match run.target(name) {
            Some(target) => counted(target),
            None => "-".to_owned(),
        });
        line(about, cells)
    };
    text += &row("`attach` refuses in one clear line", plan::REFUSAL);
    for target in &TARGETS {
        text += &row(
            &format!("{} (`{}`)", target.about, target.name),
            target.name,
        );
    }
    text += &line(
        "complaints of the kernel itself",
        tested.iter().map(|run| run.complaints.len().to_string()),
    );
    text += &line("seconds", tested.iter().map(|run| run.seconds.to_string()));
    text + "\n"
}

fn counted(target: &Target) -> String {
    let passed = target.tests.len() - target.failed().count();
    let of = target.tests.len();
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

/// Instructions that each kernel's verifier looked at.
pub fn verified(runs: &[Run]) -> String {
    let tested: Vec<_> = runs
        .iter()
        .filter(|run| run.target("verifier").is_some())
        .collect();
    if tested.is_empty() {
        return String::new();
    }
    let counts = |run: &Run| {
        run.target("verifier")
            .map_or(&[][..], |target| &target.verified)
            .to_vec()
    };
    let mut entries: Vec<String> = Vec::new();
    for run in &tested {
        for (entry, _) in counts(run) {
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
    }
    let mut text = format!(
        "## The verifier\n\n\
         Instructions that the verifier looked at, for each entry in its dearest configuration (`tests/tests/verifier.rs`), \n\
         and the share of the {} at which it gives up.\n\n",
        grouped(LIMIT)
    )
    .replace(" \n", "\n");
    text += &heading("entry", &tested);
    for entry in entries {
        let cells = tested.iter().map(|run| {
            let found = counts(run).into_iter().find(|(name, _)| *name == entry);
            found.map_or("-".to_owned(), |(_, count)| {
                let thousandths = count / (LIMIT / 1_000);
                format!(
                    "{} ({}.{} %)",
                    grouped(count),
                    thousandths / 10,
                    thousandths % 10
                )
            })
        });
        text += &line(&format!("`{entry}`"), cells);
    }
    text + "\n"
}

/// Every test by its name.
fn each(runs: &[Run]) -> String {
    let tested: Vec<_> = runs
        .iter()
        .filter(|run| run.target(plan::REFUSAL).is_none())
        .collect();
    let mut text = "## Each test\n\n".to_owned();
    text += &heading("test", &tested);
    for target in &TARGETS {
        let mut names: Vec<&str> = Vec::new();
        let found = tested.iter().filter_map(|run| run.target(target.name));
        for (name, _) in found.flat_map(|target| &target.tests) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        for name in names {
            let cells = tested.iter().map(|run| {
                let tests = run
                    .target(target.name)
                    .map_or(&[][..], |target| &target.tests);
                match tests.iter().find(|(test, _)| test == name) {
                    Some((_, true)) => "passed".to_owned(),
                    Some((_, false)) => "**failed**".to_owned(),
                    None => "**not run**".to_owned(),
                }
            });
            text += &line(&format!("`{}::{name}`", target.name), cells);
        }
    }
    text + "\n"
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

fn heading(first: &str, runs: &[&Run]) -> String {
    line(first, runs.iter().map(|run| run.kernel.clone()))
        + &line("---", runs.iter().map(|_| "---".to_owned()))
}

fn line(first: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!(" {cell} |")).collect();
    format!("| {first} |{cells}\n")
}

/// 1234567 as 1,234,567.
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
