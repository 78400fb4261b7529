//! The table of sources.

use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    style::Style,
    text::{Line, Span, Text},
    widgets::{self, Cell, Table},
};

use super::number::{maybe, over, short};
use crate::{
    config::lists::DENY,
    observe::live::{Row, per_second},
    show::{
        top::{State, Theme},
        units::{counted, grouped},
    },
};

struct Column {
    title: &'static str,
    width: u16,
    /// The text for a row. The function converts a number of packets to a rate.
    text: fn(&Row, &dyn Fn(u64) -> String) -> String,
}

const SOURCE: &str = "  SOURCE";
const LIMIT: &str = "LIMIT";
const DROP_RATE: &str = "DROP/s";

/// The columns from left to right. The first three are text, the others numbers.
static COLUMNS: [Column; 8] = [
    column(SOURCE, 17, |row, _| row.source.clone()),
    column(LIMIT, 10, |row, _| row.limit.clone()),
    column("LIST", 5, |row, _| {
        row.listed.unwrap_or_default().to_owned()
    }),
    column("PASS/s", 9, |row, rate| {
        of_source(row, rate(row.activity.passed_since))
    }),
    column(DROP_RATE, 9, drop_rate),
    column("PASSED", 10, |row, _| {
        of_source(row, short(row.activity.passed))
    }),
    column("DROPPED", 10, |row, _| {
        over(short(row.activity.over), row.activity.drops)
    }),
    column("TOKENS", 9, |row, _| {
        of_source(row, tokens(row.activity.tokens))
    }),
];

/// The columns that a narrow screen omits, from the first.
const OMITTED: [&str; 6] = ["PASSED", LIMIT, "LIST", "TOKENS", "PASS/s", "DROPPED"];

const fn column(
    title: &'static str,
    width: u16,
    text: fn(&Row, &dyn Fn(u64) -> String) -> String,
) -> Column {
    Column { title, width, text }
}

/// Returns the text for a single source, otherwise `-`.
pub(in crate::show) fn of_source(row: &Row, text: String) -> String {
    if row.reason.is_some() {
        "-".to_owned()
    } else {
        text
    }
}

/// Packets over the limit per second.
pub(in crate::show) fn drop_rate(row: &Row, rate: &dyn Fn(u64) -> String) -> String {
    // The drops are counted for the prefix.
    if row.listed == Some(DENY) && row.reason.is_none() {
        return "denied".to_owned();
    }
    over(rate(row.activity.over_since), row.activity.drops)
}

/// The columns that fit beside sources of `longest` characters. `several`: there are several limits. A single limit
/// has a line of its own above.
fn columns(width: u16, longest: u16, several: bool) -> Vec<&'static Column> {
    let shown = |column: &&Column| several || column.title != LIMIT;
    let mut columns: Vec<_> = COLUMNS.iter().filter(shown).collect();
    let longer = longest.saturating_sub(COLUMNS[0].width);
    for omitted in OMITTED {
        // One space between two columns.
        let used: u16 = columns.iter().map(|column| column.width + 1).sum();
        if longer + used <= width + 1 {
            break;
        }
        columns.retain(|column| column.title != omitted);
    }
    columns
}

/// Draws the table.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let Some(picture) = &state.picture else {
        return;
    };
    let [title, area] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let rows = state.rows();
    frame.render_widget(
        headline(
            state,
            rows.iter().filter(|row| row.reason.is_none()).count(),
            picture.sample.matching,
            theme,
        ),
        title,
    );
    let selected = state.selected(&rows);
    // One line has the columns' names.
    let room = usize::from(area.height.saturating_sub(1));
    let first = (selected + 1).saturating_sub(room);
    let visible: Vec<_> = rows.iter().enumerate().skip(first).take(room).collect();
    let lengths = visible.iter().map(|(_, row)| row.source.len() + 2);
    let longest = u16::try_from(lengths.max().unwrap_or(0)).unwrap_or(u16::MAX);
    // An IPv6 address may take up to half of the screen.
    let longest = longest.min(area.width / 2);
    let several = picture.sample.interface.limits.len() > 1
        || visible.iter().any(|(_, row)| row.reason.is_some());
    let columns = columns(area.width, longest, several);
    let elapsed = picture.sample.elapsed;
    let rate = |count| maybe(elapsed.map(|elapsed| per_second(count, elapsed)));
    let line = |(i, row): &(usize, &&Row)| {
        let is_selected = *i == selected;
        let cells = columns.iter().map(|column| {
            let text = (column.text)(row, &rate);
            let text = match (column.title, is_selected) {
                (SOURCE, true) => format!("> {text}"),
                (SOURCE, false) => format!("  {text}"),
                _ => text,
            };
            let is_loss = column.title == DROP_RATE && row.activity.over_since > 0;
            let style = if is_loss {
                theme.dropped()
            } else {
                Style::new()
            };
            Cell::from(aligned(text, column)).style(style)
        });
        let line = widgets::Row::new(cells.collect::<Vec<_>>());
        if is_selected {
            line.style(theme.selected())
        } else {
            line
        }
    };
    let titles = columns.iter();
    let titles = titles.map(|column| aligned(column.title.to_owned(), column));
    let widths = columns.iter().map(|column| match column.title {
        SOURCE => Constraint::Fill(1),
        _ => Constraint::Length(column.width),
    });
    let table = Table::new(visible.iter().map(line), widths)
        .header(widgets::Row::new(titles.collect::<Vec<_>>()).style(theme.heading()));
    frame.render_widget(table, area);
}

fn aligned(text: String, column: &Column) -> Text<'static> {
    let alignment = match column.title {
        SOURCE | LIMIT | "LIST" => Alignment::Left,
        _ => Alignment::Right,
    };
    Text::from(text).alignment(alignment)
}

fn headline(state: &State, shown: usize, matching: u64, theme: Theme) -> Line<'static> {
    let mut line = Line::default();
    let order = state.order.name();
    let shown = shown as u64;
    let count = if shown < matching {
        format!("{} of {}", grouped(shown), counted(matching, "source"))
    } else {
        counted(shown, "source")
    };
    line.push_span(Span::styled(format!("{count} by {order}"), theme.heading()));
    if !state.filter.is_empty() {
        let text = format!("  filter: {}", state.filter);
        line.push_span(Span::styled(text, theme.warning()));
    }
    line
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shown, not computed with; never negative"
)]
fn tokens(left: f64) -> String {
    if left < 100_000.0 {
        format!("{left:.1}")
    } else {
        short(left as u64)
    }
}
