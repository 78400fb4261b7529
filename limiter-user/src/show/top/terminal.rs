//! The terminal: taken over, and given back whatever happens but `kill -9`.

use std::{
    io::{self, IsTerminal, Stdout, Write},
    panic, thread,
};

use ratatui::{
    Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor, event, execute,
        terminal::{
            self, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
        },
    },
};
use tokio::sync::mpsc;

/// The screen, for as long as this is there.
#[derive(Debug)]
pub struct Screen(Terminal<CrosstermBackend<Stdout>>);

/// Why there is no terminal to show the view on; none where there is one.
#[must_use]
pub fn missing(variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Some("input or output is no terminal");
    }
    match variable("TERM").as_deref() {
        None | Some("" | "dumb" | "unknown") => Some("the terminal cannot move its cursor (TERM)"),
        Some(_) => None,
    }
}

impl Screen {
    /// Takes the terminal over. A panic gives it back before it says what it is.
    pub fn enter() -> io::Result<Self> {
        let say = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            give_back();
            say(what);
        }));
        let entered = Self::take();
        if entered.is_err() {
            give_back();
        }
        entered
    }

    fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        Terminal::new(CrosstermBackend::new(io::stdout())).map(Self)
    }

    /// Draws; only what has changed is sent.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(picture)?;
        Ok(())
    }

    /// Gives the terminal back for a while.
    pub fn leave(&mut self) {
        give_back();
    }

    /// Takes it over again: whoever had it meanwhile may have left it in any state.
    pub fn come_back(&mut self) -> io::Result<()> {
        // It remembers the state from before, and would not look again.
        disable_raw_mode()?;
        enable_raw_mode()?;
        execute!(
            io::stdout(),
            EnterAlternateScreen,
            terminal::Clear(terminal::ClearType::All)
        )?;
        // One that knows nothing of what was drawn. (`Terminal::clear` asks the terminal where its cursor is, and
        // the answer would go to who reads the keys.)
        self.0 = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. May be called twice.
fn give_back() {
    // Where the terminal is gone there is nothing to give back.
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = io::stdout().flush();
}

/// Reads the terminal, in a thread that ends with the process or with the first error.
#[must_use]
pub fn input() -> mpsc::UnboundedReceiver<io::Result<event::Event>> {
    let (to, inputs) = mpsc::unbounded_channel();
    thread::spawn(move || {
        loop {
            let input = event::read();
            let failed = input.is_err();
            if to.send(input).is_err() || failed {
                return;
            }
        }
    });
    inputs
}
