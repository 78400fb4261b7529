//! The last lines: results, questions, keys.

use ratatui::text::Line;

use crate::show::live::{
    grid::{flow, width, wrapped},
    view::{Dialog, View},
};

/// Keys with their meaning, the most important ones first.
const KEYS: [&str; 10] = [
    "q quit",
    "? help",
    "/ filter",
    "s sort",
    "b ban",
    "a allow",
    "r reset",
    "w senders",
    "p pause",
    "l limits",
];

/// The most lines that a result takes.
const RESULT: usize = 6;

/// The last lines of the screen.
pub fn lines(view: &View, most: usize) -> Vec<Line<'static>> {
    let palette = view.palette;
    let mut lines = Vec::new();
    if let Some(result) = &view.result {
        let style = match result.is_error {
            true => palette.dropped(),
            false => palette.passed(),
        };
        lines = wrapped(&result.text, most, style);
        if lines.len() > RESULT {
            lines.truncate(RESULT - 1);
            let rest = "... and more, which does not fit here".to_owned();
            lines.extend(flow(&[rest], most, style));
        }
    }
    match &view.dialog {
        None => lines.push(keys(view, most)),
        Some(dialog) => lines.extend(question(view, dialog, most)),
    }
    lines
}

/// The keys that fit, each as a whole.
fn keys(view: &View, most: usize) -> Line<'static> {
    let paused = view.paused.then_some("PAUSED");
    let tab = view.has_others.then_some("Tab next");
    let mut text = String::new();
    for key in paused
        .into_iter()
        .chain(KEYS[..2].iter().copied())
        .chain(tab)
        .chain(KEYS[2..].iter().copied())
    {
        let gap = if text.is_empty() { "" } else { "  " };
        if width(&text) + gap.len() + width(key) <= most {
            text = format!("{text}{gap}{key}");
        }
    }
    let mut line = Line::from(text);
    if view.paused {
        line = line.style(view.palette.shadow());
    }
    line
}

fn question(view: &View, dialog: &Dialog, most: usize) -> Vec<Line<'static>> {
    let palette = view.palette;
    match dialog {
        Dialog::Filter(text) => {
            let text = format!("show sources with (address, prefix, part of a name): {text}_");
            wrapped(&text, most, palette.title())
        }
        Dialog::Time {
            source,
            text,
            wrong,
        } => {
            let mut lines = match wrong {
                Some(wrong) => wrapped(wrong, most, palette.dropped()),
                None => Vec::new(),
            };
            let text = format!("ban {source} for (Enter goes on, Esc leaves): {text}_");
            lines.extend(wrapped(&text, most, palette.title()));
            lines
        }
        Dialog::Confirm { command, warning } => {
            let mut lines = match warning {
                Some(warning) => wrapped(warning, most, palette.dropped()),
                None => Vec::new(),
            };
            let text = format!("limiter {command} -- y does it, any other key leaves");
            lines.extend(wrapped(&text, most, palette.alarm()));
            lines
        }
        Dialog::Waiting(command) => {
            let text = format!("limiter {command} runs; Ctrl-C quits");
            wrapped(&text, most, palette.title())
        }
    }
}
