//! Mistakes in a file, by line.

use std::{collections::BTreeSet, fmt};

use super::super::on_one_line;
use crate::config::Part;

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

pub struct Mistakes {
    /// Offset of each line's first byte.
    starts: Vec<usize>,
    /// Lines that are not TOML, so that their values mean nothing.
    pub broken: BTreeSet<usize>,
    /// Keys with wrong values.
    pub wrong: BTreeSet<(Part, String)>,
    pub found: Vec<Mistake>,
}

impl Mistakes {
    pub fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self {
            starts: std::iter::once(0)
                .chain(ends.map(|(end, _)| end + 1))
                .collect(),
            broken: BTreeSet::new(),
            wrong: BTreeSet::new(),
            found: Vec::new(),
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

    pub fn add(&mut self, line: usize, message: String) {
        if !self.broken.contains(&line) {
            self.found.push(Mistake { line, message });
        }
    }

    pub fn is_wrong(&mut self, of: Part, key: &str) {
        self.wrong.insert((of, key.to_owned()));
    }

    pub fn any_wrong(&self, of: Part, keys: &[&str]) -> bool {
        keys.iter()
            .any(|key| self.wrong.contains(&(of, (*key).to_owned())))
    }

    /// The value that was read, if there is no mistake.
    pub fn none_or<T>(mut self, read: Option<T>) -> Result<T, Vec<Mistake>> {
        if let Some(read) = read.filter(|_| self.found.is_empty()) {
            return Ok(read);
        }
        self.found.sort_by_key(|mistake| mistake.line);
        for mistake in &mut self.found {
            mistake.message = on_one_line(&mistake.message);
        }
        Err(self.found)
    }
}
