use std::{cmp::Reverse, env, num::NonZeroUsize, time::Duration};

use clap::Args;
use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::time::{self, MissedTickBehavior, sleep};

use crate::{
    cli::shared::{SECOND, Usage, answer, duration, interface, interruption},
    kernel::{Attachment, Error},
    observe::{Interface, Sample, Wanted, busiest::Order, collect, live::Gauge},
    sandbox,
    show::{screen, screen::Screen, top},
};

const PRINTED: usize = 20;
/// More sources than lines on a screen.
const HELD: usize = 200;
const KEYS: &str = "q quit  s sort  p pause";

/// Show the sources that send most and are dropped most, live
#[derive(Debug, Args)]
pub struct Top {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    interface: String,
    /// Print once and exit
    #[arg(long)]
    once: bool,
    /// Number of sources that --once prints. Default: 20
    #[arg(short = 'n', value_name = "N", requires = "once")]
    most: Option<NonZeroUsize>,
    /// Print JSON, for programs
    #[arg(long, requires = "once")]
    json: bool,
    /// Time between readings; --once measures rates over it. 100ms to 10s
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration(100..=10 * SECOND, "500ms"))]
    interval: Duration,
}

pub async fn run(arguments: Top) -> anyhow::Result<()> {
    if !arguments.once {
        return live(&arguments.interface, arguments.interval).await;
    }
    let sample = twice(&arguments).await?;
    answer(arguments.json, &sample.top, || top::once(&sample.top))
}

/// The second of two samples, so that there are rates.
async fn twice(arguments: &Top) -> Result<Sample, Error> {
    let wanted = Wanted {
        order: Order::default(),
        most: arguments.most.map_or(PRINTED, NonZeroUsize::get),
    };
    let mut gauge = Gauge::default();
    look(&arguments.interface, wanted, &mut gauge).await?;
    sleep(arguments.interval).await;
    look(&arguments.interface, wanted, &mut gauge).await
}

/// Takes a sample. Opens the attachment anew each time, because a change may have brought another program, or
/// `detach` may have removed it.
async fn look(interface: &str, wanted: Wanted, gauge: &mut Gauge) -> Result<Sample, Error> {
    let attachment = Attachment::open(interface).await?;
    collect::sample(&attachment, wanted, gauge)
}

async fn live(interface: &str, interval: Duration) -> anyhow::Result<()> {
    if let Some(why) = screen::missing(env::var("TERM").ok().as_deref()) {
        let text = format!(
            "the live view needs a terminal, and {why}: use `limiter top {interface} --once`"
        );
        return Err(Usage(text).into());
    }
    let mut view = View::default();
    // Errors are reported before the view takes the screen.
    view.look(interface).await?;
    let interrupted = interruption()?;
    tokio::pin!(interrupted);
    let mut ticks = time::interval_at(time::Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The view changes nothing: from here on this process has only the rights to read.
    sandbox::confine(sandbox::TO_READ)?;
    let screen = Screen::enter()?;
    let mut input = screen::input();
    loop {
        view.draw(&screen, interval)?;
        tokio::select! {
            // The signals to leave come first, even if there is much else to do.
            biased;
            () = &mut interrupted => return Ok(()),
            event = input.recv() => match event.transpose()? {
                Some(event) if view.goes_on(&event) => {}
                _ => return Ok(()),
            },
            _ = ticks.tick() => view.look(interface).await?,
        }
    }
}

#[derive(Default)]
struct View {
    order: Order,
    paused: bool,
    gauge: Gauge,
    sample: Option<Sample>,
    before: Option<Interface>,
}

impl View {
    /// Takes a sample. A paused view keeps its own.
    async fn look(&mut self, interface: &str) -> Result<(), Error> {
        let wanted = Wanted {
            order: self.order,
            most: HELD,
        };
        let sample = look(interface, wanted, &mut self.gauge).await?;
        if !self.paused {
            self.before = self.sample.replace(sample).map(|sample| sample.interface);
            self.sort();
        }
        Ok(())
    }

    /// Sorts the rows on the screen. All others follow with the next sample.
    fn sort(&mut self) {
        if let Some(sample) = &mut self.sample {
            (sample.top.sources).sort_by_key(|of| Reverse(of.activity.rank(self.order)));
        }
    }

    /// Handles an event of the terminal. Returns `false` to end the view.
    fn goes_on(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else { return true };
        if key.kind == KeyEventKind::Release {
            return true;
        }
        match key.code {
            KeyCode::Char('q') => return false,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('s') => {
                self.order = self.order.next();
                self.sort();
            }
            _ => {}
        }
        true
    }

    fn draw(&self, screen: &Screen, interval: Duration) -> std::io::Result<()> {
        let Some(sample) = &self.sample else {
            return Ok(());
        };
        let text = top::live(sample, self.before.as_ref(), interval);
        let paused = if self.paused { "PAUSED  " } else { "" };
        let last = format!("{paused}{KEYS}  (by {})", self.order.name());
        screen.draw(&text, &last)
    }
}
