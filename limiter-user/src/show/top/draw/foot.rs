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

/// Lines that the text takes: as many as it needs, up to half of the screen.
pub fn height(text: &Text<'_>, area: Rect) -> u16 {
    let wrapped = text.lines.iter().map(|line| wrapped(line, area.width));
    wrapped.sum::<u16>().clamp(1, (area.height / 2).max(1))
}

/// Lines that one line of text takes, broken between words.
fn wrapped(line: &Line<'_>, width: u16) -> u16 {
    let text: String = line
        .spans
        .iter()
        .map(|span| span.content.as_ref())
        .collect();
    let width = usize::from(width).max(1);
    let (mut lines, mut used) = (1, 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        let wanted = used + usize::from(used > 0) + length;
        if wanted <= width {
            used = wanted;
        } else {
            lines += 1 + length.saturating_sub(1) / width - usize::from(used == 0);
            used = (length.max(1) - 1) % width + 1;
        }
    }
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// Draws the last lines.
pub fn draw(frame: &mut Frame<'_>, area: Rect, text: Text<'static>) {
    let paragraph = Paragraph::new(text).wrap(Wrap { trim: true });
    frame.render_widget(paragraph, area);
}
