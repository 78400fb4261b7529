//! Mistakes in a file, by line.

use std::{fmt, mem};

use super::keys::Keys;
use crate::on_one_line;

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

/// The mistakes of a file.
pub struct Mistakes {
    /// All tables of the file.
    pub tables: &'static [&'static Keys],
    /// Offset of each line's first byte.
    starts: Vec<usize>,
    found: Vec<Mistake>,
}

impl Mistakes {
    /// No mistakes yet in a text with these tables.
    pub fn new(text: &str, tables: &'static [&'static Keys]) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self {
            tables,
            starts: std::iter::once(0)
                .chain(ends.map(|(end, _)| end + 1))
                .collect(),
            found: Vec::new(),
        }
    }

    /// The line with the byte at `offset`.
    pub fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// Adds a mistake.
    pub fn add(&mut self, line: usize, message: String) {
        let message = on_one_line(&message);
        self.found.push(Mistake { line, message });
    }

    /// Fails with the mistakes found, in the order of their lines.
    pub fn none(&mut self) -> Result<(), Vec<Mistake>> {
        self.found.sort_by_key(|mistake| mistake.line);
        match mem::take(&mut self.found) {
            found if found.is_empty() => Ok(()),
            found => Err(found),
        }
    }
}
