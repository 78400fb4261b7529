//! The terminal: taken over, and given back in every case except `kill -9`.

use std::{
    io::{self, IsTerminal, Write},
    panic, thread,
};

use crossterm::{
    cursor, event, execute, queue,
    style::Print,
    terminal::{self, BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate},
};
use limiter_config::escape;
use tokio::sync::mpsc;

/// The screen, taken over until it is dropped.
#[derive(Debug)]
pub struct Screen(());

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
        let screen = Self(());
        terminal::enable_raw_mode()?;
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Draws the text, cut to the screen, and `last` on the last line.
    pub fn draw(&self, text: &str, last: &str) -> io::Result<()> {
        let size = terminal::window_size()?;
        let cut = |line: &str| -> String {
            let line = escape(line, |_| false);
            line.chars().take(size.columns.into()).collect()
        };
        let bottom = size.rows.saturating_sub(1);
        let mut out = io::stdout().lock();
        queue!(out, BeginSynchronizedUpdate, Clear(ClearType::All))?;
        for (row, line) in (0..bottom).zip(text.lines()) {
            queue!(out, cursor::MoveTo(0, row), Print(cut(line)))?;
        }
        queue!(out, cursor::MoveTo(0, bottom), Print(cut(last)))?;
        queue!(out, EndSynchronizedUpdate)?;
        out.flush()
    }
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
