//! The terminal: taken over, and given back in every case except `kill -9`.

use std::{
    io::{self, IsTerminal, Stdout},
    panic, thread,
};

use crossterm::{
    cursor, event, execute, queue,
    terminal::{self, BeginSynchronizedUpdate, EndSynchronizedUpdate},
};
use ratatui::{Frame, Terminal, backend::CrosstermBackend, layout::Rect};
use tokio::sync::mpsc;

/// The screen, taken over until it is dropped.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// The reason why the view cannot use the terminal; none if it can. `term`: the variable `TERM`.
pub fn missing(term: Option<&str>) -> Option<&'static str> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Some("input or output is not a terminal");
    }
    match term {
        None | Some("" | "dumb" | "unknown") => Some("the terminal cannot move its cursor (TERM)"),
        Some(_) => None,
    }
}

impl Screen {
    /// Takes the terminal over. A panic gives the terminal back before its message is printed.
    pub fn enter() -> io::Result<Self> {
        let say = panic::take_hook();
        panic::set_hook(Box::new(move |panic_info| {
            give_back();
            say(panic_info);
        }));
        let screen = Self {
            terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?,
        };
        terminal::enable_raw_mode()?;
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Draws the changes since the last drawing, at once.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> io::Result<()> {
        queue!(io::stdout(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        execute!(io::stdout(), EndSynchronizedUpdate)
    }

    /// Clears the screen, so that the next drawing is of everything.
    pub fn clear(&mut self) -> io::Result<()> {
        // `Terminal::clear` would ask the terminal where its cursor is, and `input` would read the answer.
        let size = terminal::window_size()?;
        self.terminal
            .resize(Rect::new(0, 0, size.columns, size.rows))
    }
}

/// The number of lines on the screen.
pub fn height() -> io::Result<usize> {
    Ok(terminal::window_size()?.rows.into())
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. Can be called twice.
fn give_back() {
    // If the terminal is gone, there is nothing to restore.
    let _ = terminal::disable_raw_mode();
    let _ = execute!(io::stdout(), terminal::LeaveAlternateScreen, cursor::Show);
}

/// Reads the terminal, in a thread that ends with the process or with the first error.
pub fn input() -> mpsc::UnboundedReceiver<io::Result<event::Event>> {
    let (sender, inputs) = mpsc::unbounded_channel();
    thread::spawn(move || {
        loop {
            let input = event::read();
            let failed = input.is_err();
            if sender.send(input).is_err() || failed {
                return;
            }
        }
    });
    inputs
}
