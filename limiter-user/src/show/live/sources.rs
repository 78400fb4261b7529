//! The sources: those around the chosen one.

use ratatui::{style::Style, text::Line};

use crate::{
    observe::{Order, choice::REACHED, source::TopSource},
    show::{
        live::{
            grid::{Cell, Column, Grid, cut},
            header::filled,
            view::View,
        },
        top,
        units::{grouped, rate, seconds},
    },
};

/// The columns: their order, title, whether they have numbers, and when they are left out of a narrow screen.
const COLUMNS: [(Order, &str, bool, u8); 10] = [
    (Order::Source, "SOURCE", false, 0),
    (Order::Limit, "LIMIT", false, 5),
    (Order::PassRate, "PASS/s", true, 2),
    (Order::DropRate, "DROP/s", true, 1),
    (Order::Passed, "PASSED", true, 8),
    (Order::Dropped, "DROPPED", true, 3),
    (Order::WouldDrop, "WOULD DROP", true, 4),
    (Order::Tokens, "TOKENS", true, 7),
    (Order::Held, "HELD", true, 6),
    (Order::Open, "OPEN", true, 9),
];

/// The width from which sources have their places.
const PLACES: usize = 60;

/// The columns that have something to show.
pub fn columns(view: &View) -> Vec<Order> {
    let interface = &view.sample.interface;
    let sources = &view.sample.top.sources;
    let has = |order: &Order| match order {
        Order::Limit => interface.limits.len() > 1,
        Order::WouldDrop => {
            let is_in_shadow = interface.limits.iter().any(|limit| limit.shadow);
            let would_drop = |source: &TopSource| source.would_drop_packets > 0;
            interface.shadow || is_in_shadow || sources.iter().any(would_drop)
        }
        Order::Open => interface
            .limits
            .iter()
            .any(|limit| limit.connections.is_some()),
        Order::Held => interface.limits.iter().any(|limit| limit.hold.is_some()),
        _ => true,
    };
    // The column that sorts stays, to be seen.
    let orders = COLUMNS.map(|(order, ..)| order).into_iter();
    orders
        .filter(|order| has(order) || *order == view.order)
        .collect()
}

/// The title of a column.
pub fn title(wanted: Order) -> &'static str {
    let mut columns = COLUMNS.iter();
    columns
        .find(|(order, ..)| *order == wanted)
        .map_or("", |(_, title, ..)| title)
}

/// The lines about sources, at most `height`. Scrolls the view, so that the chosen one is among them.
pub fn lines(view: &mut View, most: usize, height: usize) -> Vec<Line<'static>> {
    // Rows go before the bar and the titles above them.
    let (has_bar, has_titles) = (height > 1, height > 2);
    let above = usize::from(has_bar) + usize::from(has_titles);
    let room = height.saturating_sub(above).max(1);
    let chosen = view.sample.chosen;
    let lowest = (chosen + 1).saturating_sub(room);
    view.scrolled = view.scrolled.clamp(lowest, chosen.max(lowest));
    view.rows = room;
    let hidden = view.scrolled.saturating_sub(view.sample.first);
    let sources = view.sample.top.sources.iter();
    let shown: Vec<_> = sources.skip(hidden).take(room).collect();
    let mut lines = Vec::new();
    if has_bar {
        let bar = bar(view, shown.len());
        lines.push(Line::styled(cut(&bar, most), view.palette.faint()));
    }
    if shown.is_empty() {
        lines.push(Line::raw(match view.filter.is_empty() {
            true => "no source is in the table",
            false => "no source matches the filter: Esc clears it",
        }));
        return lines;
    }
    let place_of_chosen = chosen.saturating_sub(view.scrolled);
    let grid = grid(view, &shown, place_of_chosen, most >= PLACES);
    let mut rows = grid.lines(most);
    if let Some(row) = rows.get_mut(place_of_chosen + 1) {
        *row = filled(row.clone(), most).patch_style(view.palette.chosen());
    }
    lines.extend(rows.into_iter().skip(usize::from(!has_titles)));
    lines.truncate(height);
    lines
}

/// The line above the titles: which sources are shown, and why these.
fn bar(view: &View, shown: usize) -> String {
    let (first, matching) = (view.scrolled as u64, view.sample.matching);
    let mut text = match shown {
        0 => "SOURCES".to_owned(),
        _ => format!(
            "SOURCES {}-{} of {}",
            grouped(first + 1),
            grouped(first + shown as u64),
            grouped(matching)
        ),
    };
    text += &format!(" by {}", title(view.order));
    if view.reversed {
        text += " reversed";
    }
    if !view.filter.is_empty() {
        text += &format!(" with {}", view.filter);
    }
    if matching > REACHED as u64 {
        text += &format!("; / finds those beyond {}", grouped(REACHED as u64));
    }
    limiter_config::escape(&text, |_| false)
}

fn grid(view: &View, sources: &[&TopSource], chosen: usize, has_places: bool) -> Grid {
    let palette = view.palette;
    let orders = columns(view);
    let columns = COLUMNS.iter().filter(|(order, ..)| orders.contains(order));
    let columns = columns.map(|(order, title, is_number, left_out)| {
        let (title, style) = match (*order == view.order, view.reversed) {
            (false, _) => ((*title).to_owned(), palette.title()),
            (true, false) => (format!("{title}▼"), palette.sorted()),
            (true, true) => (format!("{title}▲"), palette.sorted()),
        };
        let title = match order {
            Order::Source => format!(" {title}"),
            _ => title,
        };
        Column {
            title: Cell::new(title, style),
            is_number: *is_number,
            left_out: if *order == view.order { 0 } else { *left_out },
        }
    });
    let rows = sources.iter().enumerate().map(|(number, source)| {
        let mark = if number == chosen { '>' } else { ' ' };
        let cell = |order: &Order| match order {
            Order::Source if has_places => {
                Cell::plain(format!("{mark}{}", top::with_place(source)))
            }
            order => cell(view, source, *order, mark),
        };
        orders.iter().map(cell).collect()
    });
    Grid {
        columns: columns.collect(),
        rows: rows.collect(),
    }
}

fn cell(view: &View, source: &TopSource, order: Order, mark: char) -> Cell {
    let palette = view.palette;
    let over = if source.shadow {
        source.would_drop_packets_per_second
    } else {
        source.dropped_packets_per_second
    };
    let is_over = over.is_some_and(|rate| rate > 0.0);
    match order {
        Order::Source => Cell::plain(format!("{mark}{}", source.source)),
        Order::Limit => Cell::plain(&source.limit),
        Order::PassRate => Cell::plain(rate(source.passed_packets_per_second)),
        Order::DropRate => {
            let style = match (&source.listed, source.shadow) {
                (Some(_), _) => palette.faint(),
                (None, true) if is_over => palette.shadow(),
                (None, false) if is_over => palette.dropped(),
                _ => Style::new(),
            };
            Cell::new(top::drop_rate(source), style)
        }
        Order::Passed => Cell::plain(grouped(source.passed_packets)),
        Order::Dropped => Cell::plain(grouped(source.dropped_packets)),
        Order::WouldDrop => Cell::plain(grouped(source.would_drop_packets)),
        Order::Tokens => Cell::plain(format!("{:.1}", source.tokens)),
        Order::Open => Cell::plain(source.open_connections.map_or("-".to_owned(), grouped)),
        Order::Held => Cell::plain(source.held_seconds.map_or("-".to_owned(), seconds)),
    }
}
