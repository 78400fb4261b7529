//! Questions to the user of `limiter edit`, with answers of one letter.

use std::{io, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
    time,
};

use crate::cli::shared::write;

/// The answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One of the letters.
    Letter(char),
    /// There is no one to ask any more.
    End,
    /// There was no answer in time.
    TooLate,
}

/// A choice with its letter in parentheses: `(k)eep and save it`.
fn with_letter(choice: &str) -> String {
    let (letter, rest) = choice.split_at(choice.len().min(1));
    format!("({letter}){rest}")
}

/// Standard input, of which a line is read for each question: an editor reads the same terminal.
#[derive(Debug)]
pub struct Dialog {
    /// A line that is being read, because a question was not answered in time.
    reading: Option<JoinHandle<io::Result<String>>>,
    /// Ctrl-C, which is the editor's while that runs.
    interrupt: Signal,
}

impl Dialog {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            reading: None,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Asks until a line begins with the first letter of one of `choices`, or `patience` is over.
    pub async fn ask(
        &mut self,
        choices: &[&str],
        patience: Option<Duration>,
    ) -> io::Result<Answer> {
        let patience = patience.unwrap_or(Duration::MAX);
        let shown: Vec<_> = choices.iter().map(|choice| with_letter(choice)).collect();
        let end = time::Instant::now().checked_add(patience);
        loop {
            write(&format!("{}? ", shown.join(", ")))?;
            let answer = tokio::select! {
                line = next_line(&mut self.reading) => line?,
                _ = self.interrupt.recv() => String::new(),
                () = until(end) => return Ok(Answer::TooLate),
            };
            let letter = answer.trim().chars().next();
            let letter = letter.map(|letter| letter.to_ascii_lowercase());
            let is_choice =
                |letter: &char| choices.iter().any(|choice| choice.starts_with(*letter));
            match letter.filter(is_choice) {
                _ if answer.is_empty() => return Ok(Answer::End),
                Some(letter) => return Ok(Answer::Letter(letter)),
                None => {}
            }
        }
    }

    /// Forgets the Ctrl-C that were meant for the editor.
    pub fn after_editor(&mut self) -> io::Result<()> {
        self.interrupt = signal(SignalKind::interrupt())?;
        Ok(())
    }
}

/// The next line; empty at the end of standard input.
async fn next_line(reading: &mut Option<JoinHandle<io::Result<String>>>) -> io::Result<String> {
    let read = || {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    };
    let line = reading
        .get_or_insert_with(|| tokio::task::spawn_blocking(read))
        .await;
    *reading = None;
    line.map_err(io::Error::other)?
}

async fn until(end: Option<time::Instant>) {
    match end {
        Some(end) => time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
