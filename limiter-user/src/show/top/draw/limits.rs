//! The table of limits: packets passed and dropped by each.

use std::cmp::Reverse;

use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Rect},
    text::Text,
    widgets::{Row, Table},
};

use super::number::{maybe, over, short};
use crate::{
    observe::Limit,
    show::top::{
        State, Theme,
        rates::{Rate, of_limit},
        state::Picture,
    },
};

/// The maximum number of limits shown. Sources matter more.
const MOST: usize = 8;

/// Lines that the table of limits takes of the spare lines.
pub fn height(state: &State, spare: u16) -> u16 {
    let limits = state
        .picture
        .as_ref()
        .map_or(0, |picture| picture.sample.interface.limits.len().min(MOST));
    // A single line would show only the column names.
    match u16::try_from(limits).unwrap_or(0) {
        0 => 0,
        _ if spare < 2 => 0,
        limits => (limits + 1).min(spare),
    }
}

/// The limits to show. If not all fit, the ones with the most drops are shown.
fn shown(picture: &Picture, room: usize) -> Vec<(&Limit, Option<Rate>)> {
    let limits = picture.sample.interface.limits.iter();
    let rates = picture.rates.as_ref().map_or(&[][..], |of| &of.limits);
    let rates = rates.iter().copied().chain(std::iter::repeat(None));
    let mut shown: Vec<_> = limits.zip(rates).collect();
    if shown.len() > room {
        shown.sort_by_key(|(limit, rate)| {
            let dropped = rate.map_or(0.0, |rate| rate.dropped);
            Reverse((dropped.to_bits(), of_limit(limit).1))
        });
    }
    shown.truncate(room);
    shown
}

/// Draws the table of limits.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let Some(picture) = state.picture.as_ref().filter(|_| area.height > 0) else {
        return;
    };
    let interface = &picture.sample.interface;
    let shown = shown(picture, usize::from(area.height) - 1);
    let hidden = interface.limits.len() - shown.len();
    let first = match hidden {
        0 => "LIMIT".to_owned(),
        hidden => format!("LIMIT (+{hidden})"),
    };
    let first_length = u16::try_from(first.len()).unwrap_or(u16::MAX);
    let right = |text: String| Text::from(text).alignment(Alignment::Right);
    let columns = |name: String, rate: String, counters: [String; 4]| {
        let [pass, drop, passed, dropped] = counters.map(right);
        Row::new([name.into(), rate.into(), pass, drop, passed, dropped])
    };
    let row = |(limit, rate): &(&Limit, Option<Rate>)| {
        let drops = !limit.shadow && !interface.shadow;
        let (passed, dropped) = of_limit(limit);
        let counters = [
            maybe(rate.map(|rate| rate.passed)),
            over(maybe(rate.map(|rate| rate.dropped)), drops),
            short(passed),
            over(short(dropped), drops),
        ];
        columns(limit.name.clone(), rate_and_burst(limit), counters)
    };
    let titles = ["PASS/s", "DROP/s", "PASSED", "DROPPED"].map(str::to_owned);
    let titles = columns(first, String::new(), titles).style(theme.heading());
    let longest = shown.iter().map(|(limit, _)| limit.name.chars().count());
    let longest = u16::try_from(longest.max().unwrap_or(0)).unwrap_or(u16::MAX);
    let widths = [
        Constraint::Length(longest.min(16).max(first_length)),
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Length(10),
    ];
    let table = Table::new(shown.iter().map(row), widths).header(titles);
    frame.render_widget(table, area);
}

fn rate_and_burst(limit: &Limit) -> String {
    let mut text = format!("{}, burst {}, per {}", limit.rate, limit.burst, limit.key);
    if limit.shadow {
        text = format!("shadow: {text}");
    }
    text
}
