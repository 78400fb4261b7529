//! What the terminal can show.

use ratatui::{
    style::{Color, Modifier, Style},
    symbols::bar,
};

/// Whether there are colours, and characters beyond ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Colours. Nothing is said by colour alone.
    pub colour: bool,
    /// Block characters for the curves.
    pub unicode: bool,
}

/// Levels without block characters.
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
    /// That of this process's environment, which `variable` reads: no colours with `NO_COLOR`
    /// (<https://no-color.org>), block characters in a locale of UTF-8.
    #[must_use]
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

    /// What passes.
    pub(super) fn passed(self) -> Style {
        self.coloured(Color::Green)
    }

    /// What is dropped.
    pub(super) fn dropped(self) -> Style {
        self.coloured(Color::Red)
    }

    /// What must be seen.
    pub(super) fn warning(self) -> Style {
        self.coloured(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Names of columns.
    pub(super) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The line that keys act on.
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
