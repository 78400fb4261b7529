//! The cells of a row.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::plain::unquoted;

/// The characters between columns. `None`: spaces and tabs.
pub const DELIMITERS: [Option<u8>; 5] = [Some(b','), Some(b';'), Some(b'\t'), Some(b'|'), None];

/// Cuts lines into cells.
pub struct Cutter {
    delimiter: Option<u8>,
    reader: Reader,
    cells: Vec<u8>,
    ends: Vec<usize>,
}

impl Cutter {
    /// A cutter at this character.
    pub fn new(delimiter: Option<u8>) -> Self {
        Self {
            delimiter,
            reader: ReaderBuilder::new()
                .delimiter(delimiter.unwrap_or(b' '))
                .build(),
            cells: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// The cells of a line, without quotes. None if a quote does not end.
    pub fn cut<'c>(&'c mut self, line: &'c str) -> Option<Vec<&'c str>> {
        if self.delimiter.is_none() {
            return Some(line.split_whitespace().map(unquoted).collect());
        }
        self.cells.resize(line.len() + 2, 0);
        self.ends.resize(line.len() + 2, 0);
        self.reader.reset();
        let (_, read, length, count) =
            self.reader
                .read_record(line.as_bytes(), &mut self.cells, &mut self.ends);
        // A quote that is open takes the end of the line for a part of its text.
        let (result, _, more, ends) =
            self.reader
                .read_record(b"\n", &mut self.cells[length..], &mut self.ends[count..]);
        if result != ReadRecordResult::Record || read < line.len() {
            return None;
        }
        let text = str::from_utf8(&self.cells[..length + more]).ok()?;
        let mut begin = 0;
        let cells = self.ends[..count + ends].iter().map(|end| {
            let cell = text.get(begin..*end);
            begin = *end;
            cell.map(unquoted)
        });
        cells.collect()
    }
}

/// The cells of a line; none if a quote does not end.
pub fn cut(delimiter: Option<u8>, line: &str) -> Vec<String> {
    let mut cutter = Cutter::new(delimiter);
    let cells = cutter.cut(line).unwrap_or_default();
    cells.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_as_they_are_quoted() {
        let mut comma = Cutter::new(Some(b','));
        for (line, cells) in [
            ("a,b", Some(&["a", "b"][..])),
            ("\"a, b\",\"c\"\"d\"", Some(&["a, b", "c\"d"])),
            (
                "\"2026-01-01 00:00:00\", \"192.0.2.7\"",
                Some(&["2026-01-01 00:00:00", "192.0.2.7"]),
            ),
            ("a,,", Some(&["a", "", ""])),
            ("ä,b", Some(&["ä", "b"])),
            ("a,\"b", None),
            ("\"192.0.2.7", None),
        ] {
            assert_eq!(comma.cut(line).as_deref(), cells, "{line}");
        }
        assert_eq!(Cutter::new(None).cut("a \t b").unwrap(), ["a", "b"]);
    }
}
