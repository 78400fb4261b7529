//! The limits: those with packets have a row each, the others share a line.

use std::cmp::Reverse;

use ratatui::{style::Style, text::Line};

use crate::{
    observe::{Limit, Sample},
    show::{
        live::{
            grid::{Cell, Column, Grid, cut, wrapped},
            view::View,
        },
        units::{grouped, rate},
    },
};

/// Packets of a limit since the last scan: those that passed, and those of known sources that were over it.
fn since(limit: &Limit, sample: &Sample) -> (u64, u64) {
    let before = sample.before.as_ref().and_then(|before| {
        let mut limits = before.limits.iter();
        limits.find(|earlier| earlier.name == limit.name)
    });
    let passed = before.map_or(limit.passed, |before| before.passed);
    // Counters restart if a limit takes another limit's slot.
    let passed = limit.passed.packets.saturating_sub(passed.packets);
    let over = sample.over.get(&limit.name).copied();
    (passed, over.filter(|_| before.is_some()).unwrap_or(0))
}

/// The lines about limits, at most `height`.
pub fn lines(view: &View, most: usize, height: usize) -> Vec<Line<'static>> {
    let sample = &view.sample;
    let is_idle = |limit: &&Limit| !view.all_limits && since(limit, sample) == (0, 0);
    let (idle, mut busy): (Vec<_>, Vec<_>) = sample.interface.limits.iter().partition(is_idle);
    if height == 0 {
        return Vec::new();
    }
    // A line with the rest, and the titles.
    let room = height.saturating_sub(1 + usize::from(!idle.is_empty()));
    let mut hidden = 0;
    if busy.len() > room {
        // The line with their number takes one, too.
        let room = room.saturating_sub(usize::from(idle.is_empty()));
        hidden = busy.len() - room;
        busy.sort_by_key(|limit| {
            let (passed, over) = since(limit, sample);
            Reverse((over, passed))
        });
        busy.truncate(room);
    }
    let mut lines = Vec::new();
    if !busy.is_empty() {
        lines = grid(view, &busy).lines(most);
    }
    lines.extend(rest(view, &idle, hidden, most));
    lines
}

/// The line about limits without a row.
fn rest(view: &View, idle: &[&Limit], hidden: usize, most: usize) -> Option<Line<'static>> {
    let mut texts = Vec::new();
    if hidden > 0 {
        texts.push(format!("{hidden} more: L lists all"));
    }
    if !idle.is_empty() {
        let named = |limit: &&Limit| format!("{} {}", limit.name, limit.rate_in_force());
        let named: Vec<_> = idle.iter().map(named).collect();
        texts.push(format!("idle: {}", named.join(", ")));
    }
    let text = format!("LIMITS {}", texts.join("; "));
    let line = wrapped(&text, usize::MAX, view.palette.faint()).pop()?;
    let is_some = !texts.is_empty();
    is_some.then(|| Line::styled(cut(&line.to_string(), most), view.palette.faint()))
}

/// The titles, and a row for each of these limits.
pub fn grid(view: &View, limits: &[&Limit]) -> Grid {
    let (sample, palette) = (&view.sample, view.palette);
    let is_in_shadow = sample.interface.shadow || limits.iter().any(|limit| limit.shadow);
    let would_drop = |limit: &&&Limit| limit.would_drop.packets > 0;
    let has_would_drop = is_in_shadow || limits.iter().any(|limit| would_drop(&limit));
    let mut columns = vec![
        ("LIMIT", false, 0),
        ("RATE", false, 3),
        ("PASS/s", true, 1),
        ("OVER/s", true, 0),
        ("PASSED", true, 4),
        ("DROPPED", true, 2),
    ];
    if has_would_drop {
        columns.push(("WOULD DROP", true, 2));
    }
    let column = |(title, is_number, left_out): &(&str, bool, u8)| Column {
        title: Cell::new(title, palette.title()),
        is_number: *is_number,
        left_out: *left_out,
    };
    let per_second = |count: u64| {
        let seconds = sample.top.interval_seconds;
        rate(seconds.map(|seconds| count as f64 / seconds))
    };
    let rows = limits.iter().map(|limit| {
        let (passed, over) = since(limit, sample);
        let style = match (over, limit.shadow || sample.interface.shadow) {
            (0, _) => Style::new(),
            (_, true) => palette.shadow(),
            (_, false) => palette.dropped(),
        };
        let mut cells = vec![
            Cell::plain(&limit.name),
            Cell::plain(limit.rate_in_force()),
            Cell::plain(per_second(passed)),
            Cell::new(per_second(over), style),
            Cell::plain(grouped(limit.passed.packets)),
            Cell::plain(grouped(limit.dropped.packets)),
        ];
        if has_would_drop {
            cells.push(Cell::plain(grouped(limit.would_drop.packets)));
        }
        cells
    });
    Grid {
        columns: columns.iter().map(column).collect(),
        rows: rows.collect(),
    }
}
