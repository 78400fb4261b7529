//! The capabilities of the terminal.

use ratatui::{
    style::{Color, Modifier, Style},
    symbols::bar,
};

/// True if the terminal has colours, and characters beyond ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// True if colours are used. No information depends on colour alone.
    pub colour: bool,
    /// True if curves use block characters.
    pub unicode: bool,
}

/// Bar levels without block characters.
const ASCII: bar::Set<'_> = bar::Set {
    full: "#",
    seven_eighths: "%",
    three_quarters: "*",
    five_eighths: "+",
    half: "=",
    three_eighths: "-",
    one_quarter: ":",
    one_eighth: ".",
    empty: " ",
};

impl Theme {
    /// The theme for this process's environment, which `variable` reads: no colours with `NO_COLOR`
    /// (<https://no-color.org>), block characters in a UTF-8 locale.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let locale = locale.unwrap_or_default().to_lowercase();
        Self {
            colour: set("NO_COLOR").is_none(),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    pub(super) fn bars(self) -> bar::Set<'static> {
        if self.unicode {
            bar::NINE_LEVELS
        } else {
            ASCII
        }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    /// The style of passed packets.
    pub(super) fn passed(self) -> Style {
        self.coloured(Color::Green)
    }

    /// The style of dropped packets.
    pub(super) fn dropped(self) -> Style {
        self.coloured(Color::Red)
    }

    /// The style of warnings.
    pub(super) fn warning(self) -> Style {
        self.coloured(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// The style of column names.
    pub(super) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The style of the line that keys act on.
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
