//! Lists with columns: the header, the columns that are read, and the rows.

use crate::{
    cells::{Cutter, DELIMITERS, cut},
    error::Error,
    header::{Columns, DSHIELD, Header, header, is_address, name_of, row},
    lines::{numbered, significant},
    list::{List, Place},
    pair::Pair,
    plain::unquoted,
    reason::Reason,
};

/// Data rows whose columns show that a line is the header.
const SHOWN: usize = 5;

/// The layout of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    delimiter: Option<u8>,
    /// The columns with the addresses.
    pub columns: Columns,
    /// The last line before the rows.
    pub header: u32,
    /// The number of the header's columns. Rows have no more.
    pub width: usize,
    /// The reason for the layout, in words.
    pub why: String,
}

impl Layout {
    /// A layout of a list without a header.
    pub fn new(delimiter: Option<u8>, columns: Columns, why: &str) -> Self {
        Self {
            delimiter,
            columns,
            header: 0,
            width: usize::MAX,
            why: why.to_owned(),
        }
    }

    /// DShield's.
    pub fn dshield() -> Self {
        Self::new(Some(b'\t'), DSHIELD, "the format is set")
    }

    /// Returns true if its columns are such a pair.
    pub fn is_pair(&self, pair: Pair) -> bool {
        match self.columns {
            Columns::Addresses(_) => false,
            Columns::Range { .. } => pair == Pair::Ends,
            Columns::Network { .. } => pair == Pair::Network,
        }
    }

    /// The cells of a line.
    pub fn cut(&self, line: &str) -> Vec<String> {
        cut(self.delimiter, line)
    }

    /// Returns false if the columns may be other ones than their names in the header, `cells`, say: a log has `from` and
    /// `to` too. Ranges of a list have no common addresses.
    pub fn is_certain(&self, text: &str, columns: &Columns, cells: &[String]) -> bool {
        let Columns::Range { first, .. } = columns else {
            return true;
        };
        if name_of(&cells[*first]) != "from" {
            return true;
        }
        let mut cutter = Cutter::new(self.delimiter);
        let rows = rows_behind(text, self.header);
        let ranges = rows.filter_map(|(_, line)| {
            let read = row(columns, &cutter.cut(line)?);
            Some(read.into_iter().next()?.ok()?.range)
        });
        let mut ranges: Vec<_> = ranges.map(|range| (range.first(), range.last())).collect();
        ranges.sort_unstable();
        ranges.windows(2).all(|two| two[0].1 < two[1].0)
    }
}

/// The lines that may be a header: the first one that is no comment, and the comments before it, the last one first.
pub fn heads(text: &str) -> Vec<(u32, String, bool)> {
    let mut heads = Vec::new();
    for (number, line) in numbered(text) {
        let shown = line.trim_start_matches(['#', ';', '/']).trim();
        let is_comment = shown.len() < line.len();
        if !shown.is_empty() {
            heads.push((number, shown.to_owned(), is_comment));
        }
        if !line.is_empty() && !is_comment {
            break;
        }
    }
    heads.reverse();
    heads
}

/// The first rows behind a line.
pub fn rows_behind(text: &str, header: u32) -> impl Iterator<Item = (u32, &str)> {
    significant(text).filter(move |(number, _)| *number > header)
}

/// Finds the layout by the header of a list. Fails if the header does not tell which column has the addresses.
pub fn by_header(text: &str) -> Result<Option<Layout>, Error> {
    for (number, line, is_comment) in heads(text) {
        for delimiter in DELIMITERS {
            let cells = cut(delimiter, &line);
            // Words in a comment are no columns.
            if cells.len() < 2 || (is_comment && delimiter.is_none()) {
                continue;
            }
            let columns = match header(&cells) {
                Header::None => continue,
                Header::Unclear(names) if !is_comment && delimiter.is_some() => {
                    return Err(Error::WhichColumn(names));
                }
                Header::Unclear(_) => continue,
                Header::Columns(columns) => columns,
            };
            let why = format!("line {number} is a header");
            let mut layout = Layout::new(delimiter, columns, &why);
            (layout.header, layout.width) = (number, cells.len());
            if !fits(text, &layout, is_comment) {
                continue;
            }
            return match (
                layout.is_certain(text, &layout.columns, &cells),
                &layout.columns,
            ) {
                (false, Columns::Range { first, last, .. }) => {
                    let name = |place: usize| cells[place].clone();
                    Err(Error::MayBePair(Pair::Ends, name(*first), name(*last)))
                }
                _ => Ok(Some(layout)),
            };
        }
    }
    Ok(None)
}

/// Returns true if one of the first rows has addresses in the columns. A header within a comment has as many columns as
/// that row.
pub fn fits(text: &str, layout: &Layout, is_comment: bool) -> bool {
    let mut cutter = Cutter::new(layout.delimiter);
    rows_behind(text, layout.header)
        .take(SHOWN)
        .any(|(_, line)| {
            let cells = cutter.cut(line).unwrap_or_default();
            (!is_comment || cells.len() == layout.width)
                && row(&layout.columns, &cells).iter().any(Result::is_ok)
        })
}

/// The line of a header that names a single column.
pub fn single_header(text: &str) -> Option<u32> {
    let (number, line) = significant(text).next()?;
    is_address(unquoted(line)).then_some(number)
}

/// Reads the rows.
pub fn read(text: &str, layout: &Layout, list: &mut List) {
    let mut cutter = Cutter::new(layout.delimiter);
    let has_many = matches!(
        layout.columns,
        Columns::Range {
            length: Some(_),
            ..
        }
    );
    for (number, line) in rows_behind(text, layout.header) {
        let place = Place::Line(number);
        match cutter.cut(line) {
            None => list.add(place, Err(Reason::Text), line),
            Some(cells) if cells.len() > layout.width && !has_many => {
                list.add(place, Err(Reason::NoField), line);
            }
            Some(cells) => {
                let all = row(&layout.columns, &cells).into_iter();
                all.for_each(|read| list.add(place, read, line));
            }
        }
    }
}
