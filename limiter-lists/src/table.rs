//! Lists with columns: the header, the columns that are read, and the rows.

use crate::{
    address::{self, is_netmask, is_number},
    cells::{Cutter, DELIMITERS, cut},
    error::Error,
    header::{Columns, Header, header, is_address, name_of, row},
    lines::{numbered, significant},
    list::{List, Place, shortened},
    plain::unquoted,
    reason::Reason,
};

/// Data rows whose columns show that a line is the header.
const SHOWN: usize = 5;
/// Rows that make it certain which column has the addresses of a list without a header.
const CERTAIN: usize = 3;

/// The layout of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    delimiter: Option<u8>,
    columns: Columns,
    /// The last line before the rows.
    header: u32,
    /// The number of the header's columns. Rows have no more.
    width: usize,
    /// The reason for the layout, in words.
    pub why: String,
}

impl Layout {
    /// DShield's: the first and the last address, and the length.
    pub fn dshield() -> Self {
        let columns = Columns::Range {
            first: 0,
            last: 1,
            length: Some(2),
        };
        Self::without_header(Some(b'\t'), columns, "the format is set")
    }

    fn without_header(delimiter: Option<u8>, columns: Columns, why: &str) -> Self {
        Self {
            delimiter,
            columns,
            header: 0,
            width: usize::MAX,
            why: why.to_owned(),
        }
    }
}

/// The lines that may be a header: the first one that is no comment, and the comments before it, the last one first.
fn heads(text: &str) -> Vec<(u32, String, bool)> {
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
fn rows_behind(text: &str, header: u32) -> impl Iterator<Item = (u32, &str)> {
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
            let layout = Layout {
                delimiter,
                columns,
                header: number,
                width: cells.len(),
                why: format!("line {number} is a header"),
            };
            if fits(text, &layout, is_comment) {
                return Ok(Some(layout));
            }
        }
    }
    Ok(None)
}

/// Returns true if one of the first rows has addresses in the columns. A header within a comment has as many columns as
/// that row.
fn fits(text: &str, layout: &Layout, is_comment: bool) -> bool {
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

/// Finds the columns that `fields` names: by the header, or by numbers from 1.
pub fn by_fields(text: &str, fields: &[String]) -> Result<Layout, Error> {
    let mut names = Vec::new();
    for (number, line, is_comment) in heads(text) {
        for delimiter in DELIMITERS {
            let cells = cut(delimiter, &line);
            let place = |field: &String| {
                cells
                    .iter()
                    .position(|cell| name_of(cell) == name_of(field))
            };
            let places: Option<Vec<_>> = fields.iter().map(place).collect();
            if !is_comment && names.len() < cells.len() {
                names = cells.iter().map(|cell| shortened(cell)).collect();
            }
            let Some(places) = places else { continue };
            let layout = Layout {
                delimiter,
                columns: Columns::Addresses(places),
                header: number,
                width: cells.len(),
                why: format!("line {number} is a header with the field"),
            };
            if fits(text, &layout, is_comment) || !is_comment {
                return Ok(layout);
            }
        }
    }
    by_numbers(text, fields).ok_or_else(|| Error::NoColumn(fields.join("', '"), names))
}

fn by_numbers(text: &str, fields: &[String]) -> Option<Layout> {
    let numbers = fields
        .iter()
        .map(|field| field.parse::<usize>().ok()?.checked_sub(1));
    let places: Vec<_> = numbers.collect::<Option<_>>()?;
    let most = *places.iter().max()?;
    let (number, first) = significant(text).next()?;
    let mut delimiters = DELIMITERS.into_iter();
    let delimiter = delimiters.find(|delimiter| cut(*delimiter, first).len() > most.max(1))?;
    let cells = cut(delimiter, first);
    // A header has no digits where the rows have addresses.
    let is_header = places
        .iter()
        .all(|place| !cells[*place].contains(|digit: char| digit.is_ascii_digit()));
    let mut layout =
        Layout::without_header(delimiter, Columns::Addresses(places), "the field is set");
    layout.header = if is_header { number } else { 0 };
    Some(layout)
}

/// Finds the layout of a list without a header. All rows have as many columns, and only one of them has addresses, in all
/// rows. No other column may be the length of a prefix, or the end of a range. Or all rows are those of DShield's list.
pub fn by_rows(text: &str) -> Option<Layout> {
    DELIMITERS.into_iter().find_map(|delimiter| {
        let mut cutter = Cutter::new(delimiter);
        let mut kinds: Vec<[bool; 3]> = Vec::new();
        let (mut rows, mut is_dshield) = (0_usize, true);
        let dshield = Columns::Range {
            first: 0,
            last: 1,
            length: Some(2),
        };
        for (_, line) in significant(text) {
            let cells = cutter.cut(line)?;
            if rows == 0 {
                kinds = vec![[true; 3]; cells.len()];
            }
            let is_same = cells.len() == kinds.len() && cells.len() > 1;
            is_dshield &= cells.len() > 2 && row(&dshield, &cells)[0].is_ok();
            if !is_same && !is_dshield {
                return None;
            }
            rows += 1;
            for (kind, cell) in kinds.iter_mut().zip(&cells) {
                let is_entry = address::read(cell).is_ok();
                let is_length = is_number(cell) && cell.parse::<u8>().is_ok();
                // A length or an end that belongs to the column before.
                let is_rest = cell.len() > 1 && cell.starts_with(['/', '-']);
                let is_other = !is_entry && !is_rest && !is_netmask(cell);
                *kind = [
                    kind[0] && is_entry,
                    kind[1] && is_length,
                    kind[2] && is_other,
                ];
            }
        }
        if is_dshield && rows > 0 {
            let why = "in all rows, the first address, the last one and the length agree";
            return Some(Layout::without_header(delimiter, dshield, why));
        }
        let addresses: Vec<_> = (0..kinds.len()).filter(|place| kinds[*place][0]).collect();
        let others = kinds.iter().filter(|kind| !kind[0]);
        let are_others = others.clone().all(|kind| kind[2] && !kind[1]);
        (addresses.len() == 1 && are_others && rows >= CERTAIN).then(|| {
            let why = format!(
                "only column {} has addresses, in all rows",
                addresses[0] + 1
            );
            Layout::without_header(delimiter, Columns::Addresses(addresses), &why)
        })
    })
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
