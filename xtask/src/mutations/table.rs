//! What came of the mutations.

use std::fmt::{self, Write};

use super::list::Mutation;

/// What became of one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The test failed.
    Caught,
    /// It passed.
    Escaped,
    /// It fails on the sound code too.
    FailsAnyway,
    /// It does not build, or the test did not run.
    Untried,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caught => "caught",
            Self::Escaped => "NOT CAUGHT",
            Self::FailsAnyway => "THE TEST FAILS WITHOUT IT",
            Self::Untried => "DOES NOT BUILD",
        })
    }
}

/// One line of the table.
pub struct Line<'a> {
    /// What was tried.
    pub mutation: &'a Mutation,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took, with compiling.
    pub seconds: u64,
}

/// The table as Markdown.
pub fn of(lines: &[Line<'_>]) -> String {
    let mut text = String::from(
        "| promise | what is broken | where | test | outcome | seconds |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for Line {
        mutation,
        outcome,
        seconds,
    } in lines
    {
        let Mutation {
            promise,
            name,
            file,
            test,
            ..
        } = mutation;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| {promise} | {name} | `{file}` | `{test}` | {outcome} | {seconds} |"
        );
    }
    text
}

/// The table as a page.
pub fn page(table: &str, date: &str) -> String {
    format!(
        "# Mutations\n\n\
         What `cargo xtask mutations --out docs/mutations.md` found on {date}: the code is broken in each of the ways of\n\
         `tests/mutations.toml`, and the test that is meant for it must fail. Before that it must have passed.\n\n{table}"
    )
}
