//! `limiter demo`.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use clap::Args;

use crate::{
    cli::shared::{
        output::{note, write},
        values::duration,
    },
    demo::{self, Outcome},
};

/// Demonstrate a limit under a flood, between network namespaces
#[derive(Debug, Args)]
pub struct Demo {
    /// Duration of the traffic: 1s to 60s
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = lasts)]
    duration: Duration,
}

fn lasts(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_secs(1)..=Duration::from_secs(60);
    duration(text, bounds, "10s")
}

pub async fn run(arguments: Demo) -> anyhow::Result<()> {
    note(
        "two hosts in network namespaces, joined by a veth pair; Ctrl-C ends the demo and leaves nothing behind",
    );
    let mut screen = Screen::new();
    let last = demo::run(arguments.duration, |outcome| screen.show(outcome))?;
    screen.finish(&last)
}

/// The table's output. On a terminal it is redrawn in place; elsewhere it is printed every few seconds.
struct Screen {
    terminal: bool,
    lines: usize,
    printed: Option<Instant>,
}

impl Screen {
    const INTERVAL: Duration = Duration::from_secs(3);

    fn new() -> Self {
        Self {
            terminal: std::io::stdout().is_terminal(),
            lines: 0,
            printed: None,
        }
    }

    fn show(&mut self, outcome: &Outcome) -> anyhow::Result<()> {
        if self.terminal {
            return self.redraw(&outcome.table());
        }
        if self
            .printed
            .is_none_or(|printed| printed.elapsed() >= Self::INTERVAL)
        {
            self.printed = Some(Instant::now());
            write(&format!("{}\n", outcome.table()))?;
        }
        Ok(())
    }

    /// Moves up to the first line of the table, and clears the screen from there on (ECMA-48 CPL and ED).
    fn redraw(&mut self, text: &str) -> anyhow::Result<()> {
        let up = if self.lines > 0 {
            format!("\x1b[{}F\x1b[J", self.lines)
        } else {
            String::new()
        };
        self.lines = text.lines().count();
        Ok(write(&format!("{up}{text}"))?)
    }

    fn finish(&mut self, last: &Outcome) -> anyhow::Result<()> {
        if !self.terminal {
            write(&last.table())?;
        }
        write(&last.conclusion())?;
        if last.agrees() {
            return Ok(());
        }
        anyhow::bail!(
            "the numbers are not as expected, perhaps because other programs use the CPUs: run it again, and report a bug if it fails again"
        )
    }
}
