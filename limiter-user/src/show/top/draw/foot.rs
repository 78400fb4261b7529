//! The last lines: keys, question, result.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span, Text},
    widgets::{Paragraph, Wrap},
};

use crate::show::top::{State, Theme, state::Mode};

/// Key hints, the most needed first. A narrow screen shows the first ones.
const KEYS: &str = "q quit  s sort  / filter  p pause  d deny  a allow  r reset";

/// The text of the last lines.
pub fn text(state: &State, width: u16, theme: Theme) -> Text<'static> {
    match &state.mode {
        Mode::Filter => Text::from(vec![Line::from(vec![
            Span::styled(format!("filter: {}_", state.filter), theme.warning()),
            Span::raw("  (Enter keeps it, Esc ends it)"),
        ])]),
        Mode::Ask(action, warning) => {
            let question = format!("{} y: yes, any other key: no", action.question());
            let lines = warning.iter().chain([&question]);
            let lines = lines.map(|line| Line::styled(line.clone(), theme.warning()));
            Text::from(lines.collect::<Vec<_>>())
        }
        Mode::Work => Text::from("working ..."),
        Mode::Look => match &state.notice {
            Some((text, true)) => Text::styled(text.clone(), theme.warning()),
            Some((text, false)) => Text::from(text.clone()),
            None => Text::from(&KEYS[..KEYS.len().min(width.into())]),
        },
    }
}

/// Lines that the text takes, up to half of the screen. A line that is broken between words may need one more than its
/// length tells.
pub fn height(text: &Text<'_>, area: Rect) -> u16 {
    let width = usize::from(area.width).max(1);
    let lines = text.lines.iter().map(|line| match line.width() {
        fits if fits <= width => 1,
        longer => longer / width + 2,
    });
    let lines = u16::try_from(lines.sum::<usize>()).unwrap_or(u16::MAX);
    lines.clamp(1, (area.height / 2).max(1))
}

/// Draws the last lines.
pub fn draw(frame: &mut Frame<'_>, area: Rect, text: Text<'static>) {
    let paragraph = Paragraph::new(text).wrap(Wrap { trim: true });
    frame.render_widget(paragraph, area);
}
