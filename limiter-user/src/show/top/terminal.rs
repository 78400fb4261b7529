//! The terminal: taken over, and given back in every case except `kill -9`.

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

/// The screen, taken over until it is dropped.
#[derive(Debug)]
pub struct Screen(Terminal<CrosstermBackend<Stdout>>);

/// The reason why the view cannot use the terminal; none if it can.
pub fn missing(variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Some("input or output is not a terminal");
    }
    match variable("TERM").as_deref() {
        None | Some("" | "dumb" | "unknown") => Some("the terminal cannot move its cursor (TERM)"),
        Some(_) => None,
    }
}

impl Screen {
    /// Takes the terminal over. A panic gives the terminal back before its message is printed.
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

    /// Draws the picture; sends only changes to the terminal.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(picture)?;
        Ok(())
    }

    /// Gives the terminal back for a while.
    pub fn leave(&mut self) {
        give_back();
    }

    /// Takes the terminal over again. The program that had it may have left it in any state.
    pub fn come_back(&mut self) -> io::Result<()> {
        // crossterm remembers the earlier raw mode, and would do nothing.
        disable_raw_mode()?;
        enable_raw_mode()?;
        execute!(
            io::stdout(),
            EnterAlternateScreen,
            terminal::Clear(terminal::ClearType::All)
        )?;
        // A new terminal knows nothing of earlier pictures. (`Terminal::clear` asks the terminal for the cursor's
        // position, and the thread that reads the keys would get the answer.)
        self.0 = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
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
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = io::stdout().flush();
}

/// Reads the terminal, in a thread that ends with the process or with the first error.
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
