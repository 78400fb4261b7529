//! `limiter demo`.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use crate::{
    cli::{
        args,
        output::{Usage, note, write},
    },
    demo,
    observe::demo::Figures,
    show::demo::{conclusion, table},
};

pub async fn run(arguments: args::Demo) -> anyhow::Result<()> {
    let bounds = Duration::from_secs(1)..=Duration::from_secs(60);
    if !bounds.contains(&arguments.duration) {
        return Err(Usage(
            "the demonstration lasts 1s to 60s: write a duration in between".to_owned(),
        )
        .into());
    }
    note(
        "two hosts in network namespaces, joined by a veth pair; Ctrl-C ends it and leaves nothing",
    );
    let mut screen = Screen::new();
    let last = demo::run(arguments.duration, |figures| screen.show(figures))?;
    screen.finish(&last)
}

/// On a terminal the table is redrawn in place; elsewhere it is printed every few seconds.
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

    fn show(&mut self, figures: &Figures) -> anyhow::Result<()> {
        if self.terminal {
            return self.redraw(&table(figures));
        }
        if self
            .printed
            .is_none_or(|printed| printed.elapsed() >= Self::INTERVAL)
        {
            self.printed = Some(Instant::now());
            write(&format!("{}\n", table(figures)))?;
        }
        Ok(())
    }

    /// Up to the first line of what is there, and clear from there on (ECMA-48 CPL and ED).
    fn redraw(&mut self, text: &str) -> anyhow::Result<()> {
        let up = if self.lines > 0 {
            format!("\x1b[{}F\x1b[J", self.lines)
        } else {
            String::new()
        };
        self.lines = text.lines().count();
        Ok(write(&format!("{up}{text}"))?)
    }

    fn finish(&mut self, last: &Figures) -> anyhow::Result<()> {
        if !self.terminal {
            write(&table(last))?;
        }
        write(&conclusion(last))?;
        if last.rows.iter().all(|row| last.agrees(row)) {
            return Ok(());
        }
        anyhow::bail!(
            "the figures above do not agree: is another program busy with this machine's clock or CPUs? Run it again, and report it if it stays so"
        )
    }
}
