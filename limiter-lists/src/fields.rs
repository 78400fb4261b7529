//! Columns of a table that the options name: by the header, or by numbers from 1.

use crate::{
    address,
    cells::{DELIMITERS, cut},
    error::Error,
    format::Format,
    header::{Columns, name_of},
    lines::significant,
    list::shortened,
    pairs,
    table::{Layout, fits, heads},
};

/// Finds the columns that `fields` names. Without a `format`, columns that may belong together are an error.
pub fn layout(text: &str, fields: &[String], format: Option<Format>) -> Result<Layout, Error> {
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
                names.clone_from(&cells);
            }
            let Some(places) = places else { continue };
            let columns = Columns::Addresses(places.clone());
            let why = format!("line {number} is a header with the field");
            let mut layout = Layout::new(delimiter, columns, &why);
            (layout.header, layout.width) = (number, cells.len());
            if fits(text, &layout, is_comment) || !is_comment {
                layout.columns = pairs::columns(text, format, &layout, (places, &cells))?;
                return Ok(layout);
            }
        }
    }
    if let Some((mut layout, places, cells)) = by_numbers(text, fields) {
        layout.columns = pairs::columns(text, format, &layout, (places, &cells))?;
        return Ok(layout);
    }
    let (field, count) = (fields.join("', '"), names.len());
    Err(match names.iter().any(|name| address::read(name).is_ok()) {
        true => Error::NoNumber(field, count),
        false => Error::NoColumn(field, names.iter().map(|name| shortened(name)).collect()),
    })
}

/// The layout, the columns by number from 0, and the cells of the header.
fn by_numbers(text: &str, fields: &[String]) -> Option<(Layout, Vec<usize>, Vec<String>)> {
    let numbers = fields
        .iter()
        .map(|field| field.parse::<usize>().ok()?.checked_sub(1));
    let places: Vec<_> = numbers.collect::<Option<_>>()?;
    let most = *places.iter().max()?;
    let (number, first) = significant(text).next()?;
    let mut delimiters = DELIMITERS.into_iter();
    let delimiter = delimiters.find(|delimiter| cut(*delimiter, first).len() > most.max(1));
    let delimiter = match delimiter {
        // It may have one column.
        None if most == 0 => None,
        found => found?,
    };
    let cells = cut(delimiter, first);
    // A header has no digits where the rows have addresses. Nor have some IPv6 addresses.
    let is_name = |cell: &String| {
        !cell.contains(|digit: char| digit.is_ascii_digit()) && address::read(cell).is_err()
    };
    let is_header = places.iter().all(|place| is_name(&cells[*place]));
    let columns = Columns::Addresses(places.clone());
    let mut layout = Layout::new(delimiter, columns, "the field is set");
    let cells = match is_header {
        true => cells,
        false => Vec::new(),
    };
    layout.header = if is_header { number } else { 0 };
    Some((layout, places, cells))
}
