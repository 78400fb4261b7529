use std::{env, num::NonZeroUsize, time::Duration};

use clap::Args;
use crossterm::event::{Event, KeyCode, KeyModifiers};
use limiter_kernel::{Attachment, Error};
use tokio::time::{self, MissedTickBehavior, sleep};

use crate::{
    cli::shared::{SECOND, Usage, answer, duration, interface, interruption},
    observe::{Sample, collect, sample::Gauge},
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
    let most = arguments.most.map_or(PRINTED, NonZeroUsize::get);
    let mut gauge = Gauge::new(most, false);
    // Rates need two samples.
    look(&arguments.interface, &mut gauge).await?;
    sleep(arguments.interval).await;
    let top = look(&arguments.interface, &mut gauge).await?.top;
    answer(arguments.json, &top, || top::once(&top))
}

/// Takes a sample. Opens the attachment anew each time, because a change may have brought another program, or
/// `detach` may have removed it.
async fn look(interface: &str, gauge: &mut Gauge) -> Result<Sample, Error> {
    let attachment = Attachment::open(interface).await?;
    collect::sample(&attachment, gauge)
}

async fn live(interface: &str, interval: Duration) -> anyhow::Result<()> {
    if let Some(why) = screen::missing(env::var("TERM").ok().as_deref()) {
        let text = format!(
            "the live view needs a terminal, and {why}: use `limiter top {interface} --once`"
        );
        return Err(Usage(text).into());
    }
    let mut gauge = Gauge::new(HELD, false);
    // Errors are reported before the view takes the screen.
    let sample = look(interface, &mut gauge).await?;
    let mut view = View {
        paused: false,
        gauge,
        sample,
    };
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
            _ = ticks.tick() => {
                let sample = look(interface, &mut view.gauge).await?;
                if !view.paused {
                    view.sample = sample;
                }
            }
        }
    }
}

struct View {
    paused: bool,
    gauge: Gauge,
    sample: Sample,
}

impl View {
    /// Handles an event of the terminal. Returns `false` to end the view.
    fn goes_on(&mut self, event: &Event) -> bool {
        let Some(key) = event.as_key_press_event() else {
            return true;
        };
        match key.code {
            KeyCode::Char('q') => return false,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('s') if !self.paused => self.gauge.by_passed = !self.gauge.by_passed,
            _ => {}
        }
        true
    }

    fn draw(&self, screen: &Screen, interval: Duration) -> std::io::Result<()> {
        let text = top::live(&self.sample, interval);
        let paused = if self.paused { "PAUSED  " } else { "" };
        let order = match self.gauge.by_passed {
            true => "passed",
            false => "dropped",
        };
        let last = format!("{paused}{KEYS}  (by {order})");
        screen.draw(&text, &last)
    }
}
