//! Divides the screen between the parts.

use ratatui::{Frame, layout::Rect, text::Line};

use super::{bottom, header, help, limits, page, sources, view::View};

/// The height from which blank lines set the parts apart.
const AIRY: usize = 20;
/// The lines of sources for which limits make room: the bar, the titles and a row.
const SOURCES: usize = 3;

impl View {
    /// Draws the view.
    pub fn draw(&mut self, frame: &mut Frame) {
        let area = frame.area();
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let bottom = bottom::lines(self, width);
        let room = height.saturating_sub(bottom.len());
        let mut lines = match (self.help, self.page.take()) {
            (true, page) => {
                self.page = page;
                help::lines(self, width, room)
            }
            (false, Some(mut page)) => {
                let lines = page::lines(self, &mut page, width, room);
                self.page = Some(page);
                lines
            }
            (false, None) => self.parts(width, room),
        };
        lines.truncate(room);
        lines.resize(room, Line::default());
        lines.extend(bottom);
        for (row, line) in (area.y..).zip(lines.iter().take(height)) {
            frame.render_widget(line, Rect::new(area.x, row, area.width, 1));
        }
    }

    /// The header, the limits and the sources. The header is whole before the others get any room.
    fn parts(&mut self, width: usize, height: usize) -> Vec<Line<'static>> {
        let mut lines = header::lines(self, width, height < AIRY);
        let gap = usize::from(height >= AIRY);
        let blank = |lines: &mut Vec<_>| lines.resize(lines.len() + gap, Line::default());
        blank(&mut lines);
        let room = height.saturating_sub(lines.len());
        let most = (room / 3).max(2).min(room.saturating_sub(SOURCES + gap));
        let limits = limits::lines(self, width, most);
        if !limits.is_empty() {
            lines.extend(limits);
            blank(&mut lines);
        }
        let room = height.saturating_sub(lines.len());
        lines.extend(sources::lines(self, width, room));
        lines
    }
}
