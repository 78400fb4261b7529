//! Keys, as far as the view knows them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// A character, with the control key.
    Control(char),
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// Several lines up.
    PageUp,
    /// Several lines down.
    PageDown,
    /// The first line.
    Home,
    /// The last line.
    End,
    /// Done.
    Enter,
    /// Never mind.
    Escape,
    /// The last character was wrong.
    Backspace,
}

impl Key {
    /// What the terminal says; nothing where the view has no use for it.
    #[must_use]
    pub fn new(event: KeyEvent) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        Some(match event.code {
            KeyCode::Char(key) if event.modifiers.contains(KeyModifiers::CONTROL) => {
                Self::Control(key.to_ascii_lowercase())
            }
            KeyCode::Char(key) => Self::Char(key),
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            KeyCode::Home => Self::Home,
            KeyCode::End => Self::End,
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Escape,
            KeyCode::Backspace => Self::Backspace,
            _ => return None,
        })
    }
}
