//! Prints tables as text.

use std::io::{self, Write};

/// Writes rows of cells, each column as wide as its longest cell. The first column is aligned to the left.
pub fn print(out: &mut impl Write, rows: &[Vec<String>]) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            match column {
                0 => write!(out, "{cell:width$}")?,
                _ => write!(out, "  {cell:>width$}")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
