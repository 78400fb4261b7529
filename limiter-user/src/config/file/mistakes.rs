//! Mistakes in a file, by line.

use std::{collections::BTreeSet, fmt};

use super::super::on_one_line;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The mistake's line; the first is 1.
    pub line: usize,
    /// The mistake, its reason, and what to write.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// The mistakes and warnings found so far.
pub struct Mistakes {
    /// Offset of each line's first byte.
    starts: Vec<usize>,
    /// Lines that are not TOML, so that their values mean nothing.
    broken: BTreeSet<usize>,
    found: Vec<Mistake>,
    warnings: Vec<Mistake>,
}

impl Mistakes {
    /// No mistakes yet, in `text`.
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

    /// Reports that `line` is not TOML. Only a line's first such mistake counts: others follow from it.
    pub fn syntax(&mut self, line: usize, message: String) {
        if self.broken.insert(line) {
            self.found.push(Mistake { line, message });
        }
    }

    /// Reports a mistake on `line`.
    pub fn add(&mut self, line: usize, message: String) {
        if !self.is_broken(line) {
            self.found.push(Mistake { line, message });
        }
    }

    /// Warns that the text on `line` has no effect, without being a mistake.
    pub fn warn(&mut self, line: usize, message: &str) {
        let message = on_one_line(&format!("warning: {message}"));
        self.warnings.push(Mistake { line, message });
    }

    /// Returns true if `line` is not TOML.
    pub fn is_broken(&self, line: usize) -> bool {
        self.broken.contains(&line)
    }

    /// Returns true if any line is not TOML.
    pub fn any_is_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    /// Returns true if there is no mistake so far.
    pub fn are_none(&self) -> bool {
        self.found.is_empty()
    }

    /// The value and the warnings, if there is no mistake.
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
