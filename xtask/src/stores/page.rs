//! The lines of `docs/fleet-stores.md` that the plan writes.

use super::plan::{COLUMNS, column};

/// The result of a test: its name, and true if it passed.
pub type Result = (String, bool);

/// The line of a row: the tests of each column that passed, of all.
pub fn line(name: &str, version: &str, date: &str, results: &[Result]) -> String {
    let cell = |place: usize| {
        let all = results.iter().filter(|(test, _)| column(test) == place);
        let passed: Vec<bool> = all.map(|(_, passed)| *passed).collect();
        let good = passed.iter().filter(|passed| **passed).count();
        match passed.len() {
            0 => String::new(),
            all if all == good => format!("{all} of {all}"),
            all => format!("**{good} of {all}**"),
        }
    };
    let cells: Vec<_> = (0..COLUMNS.len()).map(cell).collect();
    format!("| `{name}` | {version} | {date} | {} |", cells.join(" | "))
}

/// The page with this line in the place of the line of the same row. None if the page has no line of the row.
pub fn with(page: &str, line: &str) -> Option<String> {
    let key = |line: &str| line.split('|').nth(1).map(str::to_owned);
    let row = key(line);
    let is_row = |old: &str| old.starts_with("| `") && key(old) == row;
    page.lines().any(is_row).then(|| {
        let lines = page.lines().map(|old| if is_row(old) { line } else { old });
        lines.map(|line| format!("{line}\n")).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{super::plan::ROWS, *};
    use crate::paths;

    #[test]
    fn line_counts_the_tests_of_each_column() {
        let results = [
            ("fleet::shared::a", true),
            ("fleet_store::faults::replica_is_b", true),
            ("fleet_store::restarts::c", false),
            ("fleet_store::restarts::d", true),
        ];
        let results = results.map(|(test, passed)| (test.to_owned(), passed));
        let line = line("x-sid", "8.0", "2026-01-02", &results);
        assert_eq!(
            line,
            "| `x-sid` | 8.0 | 2026-01-02 | 1 of 1 | 1 of 1 |  | **1 of 2** |  |"
        );
        let page = "# P\n| `x` | 1 |\n| `x-sid` | not run |\n";
        let new = format!("# P\n| `x` | 1 |\n{line}\n");
        assert_eq!(with(page, &line), Some(new));
        assert_eq!(with("# P\n", &line), None);
    }

    /// A row without a line would be run and not shown, and a line without a row would never be renewed.
    #[test]
    fn page_has_a_line_for_each_row() {
        let page = fs::read_to_string(paths::root().join("docs/fleet-stores.md")).unwrap();
        let lines = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
        let rows = lines
            .map(|(name, _)| name)
            .filter(|name| name.contains("-sid") || name.contains("-trixie"));
        assert_eq!(rows.collect::<Vec<_>>(), ROWS.map(|row| row.name));
    }
}
