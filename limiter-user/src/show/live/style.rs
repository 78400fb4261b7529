//! Colours with a meaning each, and their signs on terminals without colours.

use ratatui::style::{Color, Modifier, Style};

/// The styles of the view.
#[derive(Clone, Copy, Debug, Default)]
pub struct Palette {
    /// False: bold, faint and reversed text alone.
    pub is_coloured: bool,
}

impl Palette {
    fn colour(self, colour: Color) -> Style {
        match self.is_coloured {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    /// Packets that are dropped now, errors and dangers.
    pub fn dropped(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Packets that pass only because of shadow.
    pub fn shadow(self) -> Style {
        self.colour(Color::Yellow)
    }

    /// Packets that pass now, and commands that were done.
    pub fn passed(self) -> Style {
        self.colour(Color::Green)
    }

    /// A state of the whole interface that must not be overlooked.
    pub fn alarm(self) -> Style {
        self.shadow()
            .add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// Titles.
    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The column that sources are sorted by.
    pub fn sorted(self) -> Style {
        self.colour(Color::Cyan)
            .add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    /// Text that matters less.
    pub fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The chosen row.
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

#[cfg(test)]
mod tests {
    use super::Palette;

    #[test]
    fn palette_without_colours_has_none() {
        let styles = |palette: Palette| {
            [
                palette.dropped(),
                palette.shadow(),
                palette.passed(),
                palette.alarm(),
                palette.sorted(),
            ]
        };
        let plain = styles(Palette::default());
        assert!(
            plain
                .iter()
                .all(|style| style.fg.is_none() && style.bg.is_none())
        );
        let coloured = styles(Palette { is_coloured: true });
        assert!(coloured.iter().all(|style| style.fg.is_some()));
    }
}
