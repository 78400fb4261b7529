//! The demonstration's table.

use comfy_table::{CellAlignment, Table, presets::NOTHING};

use crate::{observe::demo::Figures, show::units::grouped};

/// The figures at one moment.
#[must_use]
pub fn table(figures: &Figures) -> String {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_header(["CLIENT", "SOURCE", "SENT", "PASSED", "DROPPED", "ALLOWED"]);
    for row in &figures.rows {
        table.add_row([
            row.name.to_owned(),
            row.source.clone(),
            grouped(row.sent),
            grouped(row.passed),
            grouped(row.dropped),
            grouped(figures.allowed(row)),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{:4.1} s  limit {}/s, burst {}, {} mode\n\n{}\n",
        figures.elapsed.as_secs_f64(),
        figures.rate,
        figures.burst,
        figures.mode,
        table.trim_fmt()
    )
}

/// What it means.
#[must_use]
pub fn conclusion(figures: &Figures) -> String {
    if figures.rows.iter().all(|row| figures.agrees(row)) {
        return format!(
            "\nWhat arrived is what the mathematics allows: {} at once, then {} a second. The polite client lost nothing.\n",
            figures.burst, figures.rate
        );
    }
    "\nWhat arrived is NOT what the mathematics allows.\n".to_owned()
}
