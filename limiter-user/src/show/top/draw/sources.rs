//! The sources.

use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    text::{Line, Span, Text},
    widgets::{Cell, Row, Table},
};

use super::number::{maybe, over, short};
use crate::{
    observe::live::{self, per_second},
    show::{
        top::{State, Theme},
        units::{counted, grouped},
    },
};

/// Which line a column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Source,
    Limit,
    List,
    PassRate,
    DropRate,
    Passed,
    Dropped,
    Tokens,
}

impl Column {
    /// From left to right.
    const ALL: [Self; 8] = [
        Self::Source,
        Self::Limit,
        Self::List,
        Self::PassRate,
        Self::DropRate,
        Self::Passed,
        Self::Dropped,
        Self::Tokens,
    ];

    /// Those that a narrow screen has no room for, the most wanted first.
    const OPTIONAL: [Self; 6] = [
        Self::Dropped,
        Self::PassRate,
        Self::Tokens,
        Self::List,
        Self::Limit,
        Self::Passed,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Source => "  SOURCE",
            Self::Limit => "LIMIT",
            Self::List => "LIST",
            Self::PassRate => "PASS/s",
            Self::DropRate => "DROP/s",
            Self::Passed => "PASSED",
            Self::Dropped => "DROPPED",
            Self::Tokens => "TOKENS",
        }
    }

    fn width(self) -> u16 {
        match self {
            Self::Source => 17,
            Self::Limit => 10,
            Self::List => 5,
            Self::PassRate | Self::DropRate | Self::Tokens => 9,
            Self::Passed | Self::Dropped => 10,
        }
    }

    fn is_figure(self) -> bool {
        !matches!(self, Self::Source | Self::Limit | Self::List)
    }
}

/// What there is room for beside sources of `longest` characters. `several`: lines may differ by limit.
fn columns(width: u16, longest: u16, several: bool) -> Vec<Column> {
    let mut chosen = vec![Column::Source, Column::DropRate];
    let source = longest.max(Column::Source.width());
    let mut used = source + 1 + Column::DropRate.width();
    for column in Column::OPTIONAL {
        // One limit has a line of its own above.
        if column == Column::Limit && !several {
            continue;
        }
        let more = column.width() + 1;
        // What is shorter finds no room behind what is wanted more.
        if used + more > width {
            break;
        }
        used += more;
        chosen.push(column);
    }
    let in_order = Column::ALL.into_iter();
    in_order.filter(|column| chosen.contains(column)).collect()
}

/// Draws them.
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
    // One line is the columns' names.
    let room = usize::from(area.height.saturating_sub(1));
    let first = (selected + 1).saturating_sub(room);
    let visible: Vec<_> = rows.iter().enumerate().skip(first).take(room).collect();
    let lengths = visible.iter().map(|(_, row)| row.source.len() + 2);
    let longest = u16::try_from(lengths.max().unwrap_or(0)).unwrap_or(u16::MAX);
    // An address of IPv6 may take half of the screen, but no more.
    let longest = longest.min(area.width / 2);
    let several = picture.sample.interface.limits.len() > 1
        || visible.iter().any(|(_, row)| row.reason.is_some());
    let columns = columns(area.width, longest, several);
    let line = |(i, row): &(usize, &&live::Row)| {
        let is_selected = *i == selected;
        let cells = columns.iter().map(|column| {
            let text = cell(*column, row, state, is_selected);
            let cell = Cell::from(aligned(text, *column));
            match column {
                Column::DropRate if row.activity.over_since > 0 => cell.style(theme.dropped()),
                _ => cell,
            }
        });
        let line = Row::new(cells.collect::<Vec<_>>());
        if is_selected {
            line.style(theme.selected())
        } else {
            line
        }
    };
    let titles = columns
        .iter()
        .map(|column| aligned(column.title().to_owned(), *column));
    let widths = columns.iter().map(|column| match column {
        Column::Source => Constraint::Fill(1),
        other => Constraint::Length(other.width()),
    });
    let table = Table::new(visible.iter().map(line), widths)
        .header(Row::new(titles.collect::<Vec<_>>()).style(theme.heading()));
    frame.render_widget(table, area);
}

fn aligned(text: String, column: Column) -> Text<'static> {
    let alignment = if column.is_figure() {
        Alignment::Right
    } else {
        Alignment::Left
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

fn cell(column: Column, row: &live::Row, state: &State, is_selected: bool) -> String {
    let activity = &row.activity;
    let elapsed = state
        .picture
        .as_ref()
        .and_then(|picture| picture.sample.elapsed);
    let rate = |count| maybe(elapsed.map(|elapsed| per_second(count, elapsed)));
    match column {
        Column::Source => {
            let mark = if is_selected { '>' } else { ' ' };
            format!("{mark} {}", row.source)
        }
        Column::Limit => row.limit.clone(),
        Column::List => row.listed.unwrap_or_default().to_owned(),
        Column::PassRate | Column::Passed | Column::Tokens if row.reason.is_some() => {
            "-".to_owned()
        }
        Column::PassRate => rate(activity.passed_since),
        // Its drops are those of its prefix.
        Column::DropRate if row.listed == Some("deny") && row.reason.is_none() => {
            "denied".to_owned()
        }
        Column::DropRate => over(rate(activity.over_since), activity.drops),
        Column::Passed => short(activity.passed),
        Column::Dropped => over(short(activity.over), activity.drops),
        Column::Tokens => tokens(activity.tokens),
    }
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
