//! Tables without borders.

use comfy_table::{CellAlignment, Table, presets::NOTHING};

/// Formats a table. `columns` are separated by `|`. The first `text` columns are aligned to the left. The others are
/// numbers.
pub fn table<const N: usize>(
    columns: &str,
    text: usize,
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_header(columns.split('|'))
        .add_rows(rows);
    for column in table.column_iter_mut().skip(text) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
