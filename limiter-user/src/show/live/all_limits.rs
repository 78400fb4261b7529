//! The list of all limits, over the whole screen.

use ratatui::text::Line;

use crate::show::live::{grid::cut, limits::grid, view::View};

/// The lines, at most `height`. Keeps the first limit within the list.
pub fn lines(view: &mut View, most: usize, height: usize) -> Vec<Line<'static>> {
    let count = view.sample.interface.limits.len();
    // The bar and the titles.
    let room = height.saturating_sub(2).max(1);
    let first = view.listed.unwrap_or(0).min(count.saturating_sub(room));
    view.listed = Some(first);
    view.rows = room;
    let limits = view.sample.interface.limits.iter();
    let shown: Vec<_> = limits.skip(first).take(room).collect();
    let bar = match shown.len() {
        0 => "LIMITS: none; any key but arrows leaves this list".to_owned(),
        many => format!(
            "LIMITS {}-{} of {count}; any key but arrows leaves this list",
            first + 1,
            first + many
        ),
    };
    let mut lines = vec![Line::styled(cut(&bar, most), view.palette.faint())];
    if !shown.is_empty() {
        lines.extend(grid(view, &shown).lines(most));
    }
    lines.truncate(height);
    lines
}
