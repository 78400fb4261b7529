//! Tables without borders.

use comfy_table::{CellAlignment, Table, presets::NOTHING};

/// Formats a table. `columns` are separated by `|`. The first `text` columns are aligned to the left. The others are
/// numbers.
pub fn table<const N: usize>(
    columns: &str,
    text: usize,
    values: impl IntoIterator<Item = [String; N]>,
) -> String {
    rows(columns.split('|'), text, values.into_iter().map(Vec::from))
}

/// Formats a table whose columns are known at run time.
pub fn rows<'a>(
    columns: impl IntoIterator<Item = &'a str>,
    text: usize,
    values: impl IntoIterator<Item = Vec<impl ToString>>,
) -> String {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_header(columns)
        .add_rows(values);
    for column in table.column_iter_mut().skip(text) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
