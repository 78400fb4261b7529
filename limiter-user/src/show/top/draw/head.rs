//! The first line, and the curves.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
    widgets::{Paragraph, RenderDirection, Sparkline},
};

use super::number::{maybe, short};
use crate::show::{
    top::{
        State, Theme,
        rates::{Rate, of_all},
    },
    units::grouped,
};

/// Draws the first line: the interface and the view's settings.
pub fn title(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let mut line = Line::default();
    if state.paused {
        line.push_span(Span::styled("PAUSED ", theme.warning()));
    }
    let Some(picture) = &state.picture else {
        line.push_span("looking ...");
        return frame.render_widget(line, area);
    };
    let interface = &picture.sample.interface;
    line.push_span(Span::styled(interface.name.clone(), theme.heading()));
    line.push_span(format!(" {}", interface.mode));
    if interface.shadow {
        line.push_span(Span::styled(" SHADOW", theme.warning()));
    }
    if let Some(until) = &interface.try_until {
        let text = format!(" ON TRIAL until {until}");
        line.push_span(Span::styled(text, theme.warning()));
    }
    let sources = &interface.sources;
    line.push_span(format!(
        "  {} of {} sources  every {}",
        grouped(sources.tracked),
        grouped(sources.capacity),
        humantime::format_duration(state.interval)
    ));
    frame.render_widget(line, area);
}

/// Draws passed and dropped packets, each with a curve.
pub fn curves(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let Some(picture) = &state.picture else {
        return;
    };
    let [upper, lower] =
        Layout::vertical([Constraint::Length(area.height / 2), Constraint::Fill(1)]).areas(area);
    let (passed, dropped) = of_all(&picture.sample.interface);
    let shadow = picture.sample.interface.shadow;
    let name = if shadow { "over" } else { "dropped" };
    let passes: fn(&Rate) -> f64 = |rate| rate.passed;
    let lines = [
        (upper, "passed", passed, passes, theme.passed()),
        (lower, name, dropped, |rate| rate.dropped, theme.dropped()),
    ];
    for (area, name, total, of, style) in lines {
        let rate = picture.rates.as_ref().map(|rates| of(&rates.all));
        let text = format!(
            "{name:<7} {:>9}/s  {:>10} in all",
            maybe(rate),
            short(total)
        );
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        let [words, line] =
            Layout::horizontal([Constraint::Length(length + 1), Constraint::Fill(1)]).areas(area);
        frame.render_widget(Paragraph::new(text), words);
        let history = picture.history.iter().map(of).map(whole);
        let sparkline = Sparkline::default()
            .data(history.take(line.width.into()).collect::<Vec<_>>())
            .direction(RenderDirection::RightToLeft)
            .bar_set(theme.bars())
            .style(style);
        frame.render_widget(sparkline, line);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "drawn, not computed with; never negative"
)]
fn whole(rate: f64) -> u64 {
    rate.ceil() as u64
}
