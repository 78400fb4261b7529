//! What is wrong with a file, by line.

use std::{collections::BTreeSet, fmt};

use super::super::on_one_line;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line that it is on; the first is 1.
    pub line: usize,
    /// What is wrong, why, and what to write.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Mistakes as they are found.
pub struct Mistakes {
    /// Where each line begins, in bytes.
    starts: Vec<usize>,
    /// Lines that are no TOML: what is read from them says nothing.
    broken: BTreeSet<usize>,
    found: Vec<Mistake>,
    warnings: Vec<Mistake>,
}

impl Mistakes {
    /// None yet.
    pub fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self {
            starts: std::iter::once(0)
                .chain(ends.map(|(end, _)| end + 1))
                .collect(),
            broken: BTreeSet::new(),
            found: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The line with the byte at `offset`.
    pub fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// `line` is no TOML. Only the first such mistake of a line is told: others follow from it.
    pub fn syntax(&mut self, line: usize, message: String) {
        if self.broken.insert(line) {
            self.found.push(Mistake { line, message });
        }
    }

    /// Something is wrong with what is written on `line`.
    pub fn add(&mut self, line: usize, message: String) {
        if !self.is_broken(line) {
            self.found.push(Mistake { line, message });
        }
    }

    /// What is written on `line` is no mistake, and has no effect.
    pub fn warn(&mut self, line: usize, message: &str) {
        let message = on_one_line(&format!("warning: {message}"));
        self.warnings.push(Mistake { line, message });
    }

    /// Whether `line` is no TOML.
    pub fn is_broken(&self, line: usize) -> bool {
        self.broken.contains(&line)
    }

    /// Whether any line is.
    pub fn any_is_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    /// Whether nothing is wrong so far.
    pub fn are_none(&self) -> bool {
        self.found.is_empty()
    }

    /// What was read and what is in vain in it, if nothing is wrong.
    pub fn none_or<T>(self, read: Option<T>) -> Result<(T, Vec<Mistake>), Vec<Mistake>> {
        let mut found = self.found;
        if let Some(read) = read.filter(|_| found.is_empty()) {
            let mut warnings = self.warnings;
            warnings.sort_by_key(|warning| warning.line);
            return Ok((read, warnings));
        }
        found.sort_by_key(|mistake| mistake.line);
        for mistake in &mut found {
            mistake.message = on_one_line(&mistake.message);
        }
        Err(found)
    }
}
