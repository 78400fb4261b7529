//! The picture of a state, on a screen of any size.

mod foot;
mod head;
mod limits;
pub(in crate::show) mod number;
pub(in crate::show) mod sources;

use ratatui::{
    Frame,
    layout::{Constraint, Layout},
};

use super::{State, Theme};

/// Lines reserved for sources after the first and the last line: title, column names, three sources.
const SOURCES: u16 = 5;

/// Draws the whole view.
pub fn draw(frame: &mut Frame<'_>, state: &State, theme: Theme) {
    let area = frame.area();
    let said = foot::text(state, area.width, theme);
    let foot = foot::height(&said, area);
    let spare = area.height.saturating_sub(1 + foot + SOURCES);
    let curves = curves(area.height).min(spare / 2 * 2);
    let limits = limits::height(state, spare - curves);
    let [title, middle, table, sources, last] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(curves),
        Constraint::Length(limits),
        Constraint::Fill(1),
        Constraint::Length(foot),
    ])
    .areas(area);
    head::title(frame, title, state, theme);
    head::curves(frame, middle, state, theme);
    limits::draw(frame, table, state, theme);
    sources::draw(frame, sources, state, theme);
    foot::draw(frame, last, said);
}

fn curves(height: u16) -> u16 {
    match height {
        0..30 => 2,
        30..45 => 4,
        _ => 6,
    }
}
