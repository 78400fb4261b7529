//! Rows of cells that fit a screen: whole columns are left out, numbers are never cut.

use limiter_config::escape;
use ratatui::{
    style::Style,
    text::{Line, Span},
};

/// Columns between two cells.
const GAP: usize = 2;

/// A text with its style. Characters that do not print are escaped, because names come from others.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in a style.
    pub fn new(text: impl AsRef<str>, style: Style) -> Self {
        Self {
            text: escape(text.as_ref(), |_| false),
            style,
        }
    }

    /// A cell without a style.
    pub fn plain(text: impl AsRef<str>) -> Self {
        Self::new(text, Style::new())
    }
}

/// A column of a grid.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its title.
    pub title: Cell,
    /// True if its cells are numbers, aligned to the right.
    pub is_number: bool,
    /// The columns with the highest numbers are left out first. Those with 0 stay.
    pub left_out: u8,
}

/// Rows below the titles of their columns.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The columns. The first one has text, and is cut if it is too long.
    pub columns: Vec<Column>,
    /// The rows, with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// The columns that a text takes on the screen.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text, cut to this width; its end shows that it was cut.
pub fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut shown = String::new();
    for c in text.chars() {
        if width(&shown) + width(c.encode_utf8(&mut [0; 4])) >= most {
            break;
        }
        shown.push(c);
    }
    if most > 0 {
        shown.push('…');
    }
    shown
}

impl Grid {
    /// The lines for a screen of this width: the titles, then the rows.
    pub fn lines(&self, most: usize) -> Vec<Line<'static>> {
        let widths = self.widths(most);
        let titles: Vec<_> = self
            .columns
            .iter()
            .map(|column| column.title.clone())
            .collect();
        let rows = std::iter::once(&titles).chain(&self.rows);
        rows.map(|row| self.line(row, &widths)).collect()
    }

    /// The width of each column; none if it is left out.
    fn widths(&self, most: usize) -> Vec<Option<usize>> {
        let needed = |(number, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(number));
            let cells = cells.chain([&column.title]);
            Some(cells.map(|cell| width(&cell.text)).max().unwrap_or(0))
        };
        let mut widths: Vec<_> = self.columns.iter().enumerate().map(needed).collect();
        while total(&widths) > most {
            let shown = self.columns.iter().enumerate();
            let shown =
                shown.filter(|(number, column)| widths[*number].is_some() && column.left_out > 0);
            match shown.max_by_key(|(_, column)| column.left_out) {
                Some((number, _)) => widths[number] = None,
                None => break,
            }
        }
        let too_much = total(&widths).saturating_sub(most);
        if let Some(Some(first)) = widths.first_mut() {
            *first = first.saturating_sub(too_much);
        }
        widths
    }

    fn line(&self, row: &[Cell], widths: &[Option<usize>]) -> Line<'static> {
        let mut spans = Vec::new();
        for ((cell, column), width_of_column) in row.iter().zip(&self.columns).zip(widths) {
            let Some(most) = *width_of_column else {
                continue;
            };
            if !spans.is_empty() {
                spans.push(Span::raw(" ".repeat(GAP)));
            }
            let text = cut(&cell.text, most);
            let space = " ".repeat(most - width(&text));
            let (before, after) = match column.is_number {
                true => (space, String::new()),
                false => (String::new(), space),
            };
            spans.push(Span::raw(before));
            spans.push(Span::styled(text, cell.style));
            spans.push(Span::raw(after));
        }
        Line::from(spans)
    }
}

/// The width of a row.
fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    let gaps = GAP * shown.clone().count().saturating_sub(1);
    shown.sum::<usize>() + gaps
}

/// Texts side by side, on as many lines as they need. No text is cut unless it is longer than a line.
pub fn flow(texts: &[String], most: usize, style: Style) -> Vec<Line<'static>> {
    let mut lines: Vec<String> = Vec::new();
    for text in texts {
        let text = escape(text, |_| false);
        match lines.last_mut() {
            Some(line) if width(line) + GAP + width(&text) <= most => {
                line.push_str(&" ".repeat(GAP));
                line.push_str(&text);
            }
            _ => lines.push(text),
        }
    }
    let lines = lines.iter();
    lines
        .map(|line| Line::styled(cut(line, most), style))
        .collect()
}

/// A text on as many lines as it needs, broken between words.
pub fn wrapped(text: &str, most: usize, style: Style) -> Vec<Line<'static>> {
    let mut lines: Vec<String> = Vec::new();
    for word in escape(text, |_| false).split(' ') {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let lines = lines.iter();
    lines
        .map(|line| Line::styled(cut(line, most), style))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let column = |title, is_number, left_out| Column {
            title: Cell::plain(title),
            is_number,
            left_out,
        };
        Grid {
            columns: vec![
                column("SOURCE", false, 0),
                column("DROP/s", true, 0),
                column("PASSED", true, 2),
                column("TOKENS", true, 1),
            ],
            rows: vec![
                ["2001:db8::7", "1,234", "1,234,567", "0.5"]
                    .map(Cell::plain)
                    .to_vec(),
            ],
        }
    }

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn columns_are_left_out_whole_and_only_the_first_is_cut() {
        for (most, row) in [
            (40, "2001:db8::7   1,234  1,234,567     0.5"),
            (30, "2001:db8::7   1,234     0.5"),
            (20, "2001:db8::7   1,234"),
            (16, "2001:db…   1,234"),
        ] {
            assert_eq!(texts(&grid().lines(most))[1], row, "{most}");
        }
    }

    #[test]
    fn texts_flow_to_the_next_line_uncut() {
        let flowing = ["q quit", "? help", "/ filter"].map(str::to_owned);
        let lines = flow(&flowing, 16, Style::new());
        assert_eq!(texts(&lines), ["q quit  ? help", "/ filter"]);
        let lines = wrapped("limiter keep eth0 ends it", 12, Style::new());
        assert_eq!(texts(&lines), ["limiter keep", "eth0 ends it"]);
    }

    #[test]
    fn characters_that_do_not_print_are_escaped() {
        let mut grid = grid();
        grid.rows[0][0] = Cell::plain("a\u{1b}[2Jb\u{202e}");
        let shown = &texts(&grid.lines(60))[1];
        assert!(shown.starts_with("a\\u{1b}[2Jb\\u{202e}"), "{shown}");
        let lines = wrapped("a\u{1b}[2Jb", 60, Style::new());
        assert_eq!(texts(&lines), ["a\\u{1b}[2Jb"]);
    }
}
