//! The help: the keys and their actions.

use ratatui::{
    Frame,
    layout::{Constraint, Flex, Layout, Rect},
    widgets::{Block, Clear, Paragraph},
};

use crate::show::top::Theme;

const TEXT: &str = "\
s S      sort by the next, or the previous column
/        filter: part of an address or limit's name,
         or a prefix as 192.0.2.0/24; Esc ends it
p space  pause the screen; counting goes on
up down PgUp PgDn End  choose a source
Home     the first line, whatever its source
d        deny the source; the same key undoes it
a        allow it; the same key undoes it
r        reset it: its bucket is full again
q        quit (also Ctrl-C; Ctrl-Z suspends)

Sources are counted since they entered the table.
(In parentheses): passed only because of shadow.
Any key goes back.";

/// Draws the help over the rest.
pub fn draw(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let lines = u16::try_from(TEXT.lines().count()).unwrap_or(u16::MAX);
    let width = TEXT.lines().map(str::len).max().unwrap_or(0);
    let width = u16::try_from(width).unwrap_or(u16::MAX);
    let fits = area.width >= width + 2 && area.height >= lines + 2;
    let (lines, width) = if fits {
        (lines + 2, width + 2)
    } else {
        (lines, width)
    };
    let [area] = Layout::vertical([Constraint::Max(lines)])
        .flex(Flex::Center)
        .areas(area);
    let [area] = Layout::horizontal([Constraint::Max(width)])
        .flex(Flex::Center)
        .areas(area);
    frame.render_widget(Clear, area);
    let text = Paragraph::new(TEXT);
    let text = if fits {
        let block = if theme.unicode {
            Block::bordered().title("Help")
        } else {
            Block::new().title("Help")
        };
        text.block(block)
    } else {
        text
    };
    frame.render_widget(text, area);
}
