//! Lists over the whole screen: all limits, who sends, and the explanation of a flood.

use ratatui::{style::Style, text::Line};

use crate::show::live::{
    grid::{cut, wrapped},
    limits::grid,
    view::{Content, Page, View},
};

/// The lines, at most `height`. Keeps the first line within the list.
pub fn lines(view: &mut View, page: &mut Page, most: usize, height: usize) -> Vec<Line<'static>> {
    let mut lines = match &page.content {
        Content::Limits => all_limits(view, &mut page.first, most, height),
        Content::Senders(table) => senders(view, table, &mut page.first, most, height),
        Content::Explanation(text) => explanation(view, text, &mut page.first, most, height),
    };
    lines.truncate(height);
    lines
}

/// The first and the last line on the screen, counted from 1. Keeps the first one within the list.
fn place(view: &mut View, first: &mut usize, count: usize, room: usize) -> (usize, usize) {
    let room = room.max(1);
    *first = (*first).min(count.saturating_sub(room));
    view.rows = room;
    (*first + 1, count.min(*first + room))
}

fn all_limits(
    view: &mut View,
    first: &mut usize,
    most: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let count = view.sample.interface.limits.len();
    // The bar and the titles.
    let (begin, end) = place(view, first, count, height.saturating_sub(2));
    let limits = view.sample.interface.limits.iter();
    let shown: Vec<_> = limits.skip(*first).take(view.rows).collect();
    let bar = match shown.len() {
        0 => "LIMITS: none; any key but arrows leaves this list".to_owned(),
        _ => format!("LIMITS {begin}-{end} of {count}; any key but arrows leaves this list"),
    };
    let mut lines = vec![Line::styled(cut(&bar, most), view.palette.faint())];
    if !shown.is_empty() {
        lines.extend(grid(view, &shown).lines(most));
    }
    lines
}

/// The sums and the titles of the table stay on the screen.
fn senders(
    view: &mut View,
    table: &[String],
    first: &mut usize,
    most: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let (sums, rest) = table
        .split_first()
        .map_or(("", table), |(sums, rest)| (sums.as_str(), rest));
    let (titles, rows) = rest.split_at(rest.len().min(1));
    let mut lines = wrapped(sums, most, Style::new());
    let room = height.saturating_sub(lines.len() + titles.len() + 1);
    let (begin, end) = place(view, first, rows.len(), room);
    let bar = match rows.len() {
        0 => "WHO SENDS: nobody; w counts again, any other key leaves this list".to_owned(),
        count => format!(
            "WHO SENDS {begin}-{end} of {count}; w counts again, any other key but arrows leaves this list"
        ),
    };
    lines.insert(0, Line::styled(cut(&bar, most), view.palette.faint()));
    let shown = titles
        .iter()
        .chain(rows.iter().skip(*first).take(view.rows));
    lines.extend(shown.map(|line| Line::from(cut(line, most))));
    lines
}

/// Long lines are wrapped, because a command must be readable whole.
fn explanation(
    view: &mut View,
    text: &[String],
    first: &mut usize,
    most: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let wrap = |line: &String| match line.is_empty() {
        true => vec![Line::default()],
        false => wrapped(line, most, Style::new()),
    };
    let rows: Vec<_> = text.iter().flat_map(wrap).collect();
    let (begin, end) = place(view, first, rows.len(), height.saturating_sub(1));
    let bar = format!(
        "EXPLAINED {begin}-{end} of {}; any key but arrows leaves this list",
        rows.len()
    );
    let bar = Line::styled(cut(&bar, most), view.palette.faint());
    let shown = rows.into_iter().skip(*first).take(view.rows);
    std::iter::once(bar).chain(shown).collect()
}
