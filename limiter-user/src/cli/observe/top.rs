//! `limiter top`.

mod actions;
mod signals;

use std::{env, io, num::NonZeroUsize, time::Duration};

use clap::Args;
use nix::sys::signal::{Signal, raise};
use ratatui::crossterm::event::{Event as Input, KeyEventKind};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{self, MissedTickBehavior, sleep},
};

use crate::{
    cli::shared::{
        output::{Usage, print, print_json},
        values::{duration, interface},
    },
    kernel::{Attachment, Error},
    observe::{
        busiest::{Filter, Order},
        collect,
        live::{Gauge, Sample, Wanted},
        source,
    },
    sandbox,
    show::{
        self,
        top::{
            Effect, Event, State, Theme, draw,
            terminal::{self, Screen},
        },
    },
};
use signals::{Said, Signals};

const PRINTED: usize = 20;
const HELD: usize = 200;
/// The maximum number of sources in the view.
const HELD_MAX: usize = 1000;

/// Show the sources that send most and are dropped most, live
#[derive(Debug, Args)]
pub struct Top {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    interface: String,
    /// Print once and exit
    #[arg(long)]
    once: bool,
    /// Number of sources. Default: 20 with --once, 200 in the live view (at most 1,000)
    #[arg(short = 'n', value_name = "N")]
    most: Option<NonZeroUsize>,
    /// Print JSON, for programs
    #[arg(long, requires = "once")]
    json: bool,
    /// Time between readings; --once measures rates over it. 100ms to 10s
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_millis(100)..=Duration::from_secs(10);
    duration(text, bounds, "500ms")
}

pub async fn run(arguments: Top) -> anyhow::Result<()> {
    if !arguments.once {
        return live(arguments).await;
    }
    let top = twice(&arguments).await?;
    if arguments.json {
        return print_json(&top);
    }
    Ok(print(&show::source::top(&top))?)
}

/// The second of two samples, so that there are rates.
async fn twice(arguments: &Top) -> anyhow::Result<source::Top> {
    let wanted = Wanted {
        order: Order::default(),
        filter: Filter::All,
        most: arguments.most.map_or(PRINTED, NonZeroUsize::get),
    };
    let mut gauge = Gauge::default();
    look(&arguments.interface, &wanted, &mut gauge).await?;
    sleep(arguments.interval).await;
    let sample = look(&arguments.interface, &wanted, &mut gauge).await?;
    Ok(source::Top::new(&sample))
}

async fn live(arguments: Top) -> anyhow::Result<()> {
    let interface = arguments.interface;
    let variable = |name: &str| env::var(name).ok();
    if let Some(why) = terminal::missing(variable) {
        return Err(Usage(format!(
            "the live view needs a terminal, and {why}: use `limiter top {interface} --once`"
        ))
        .into());
    }
    let most = arguments.most.map_or(HELD, NonZeroUsize::get).min(HELD_MAX);
    let mut state = State::new(most, arguments.interval);
    let mut gauge = Gauge::default();
    // Errors are reported before the view takes the screen.
    let first = look(&interface, &state.wanted(), &mut gauge).await?;
    (state, _) = state.after(Event::Sample(Box::new(first)));
    let signals = Signals::new()?;
    // From here on this process has only the rights that its keys need.
    sandbox::confine()?;
    let mut ticks = time::interval(arguments.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once.
    ticks.tick().await;
    let mut screen = Screen::enter()?;
    let mut happenings = Happenings {
        signals,
        ticks,
        input: terminal::input(),
    };
    let theme = Theme::of(variable);
    loop {
        screen.draw(|frame| draw(frame, &state, theme))?;
        let event = match happenings.next().await? {
            Happening::Input(Input::Key(key)) if key.kind != KeyEventKind::Release => {
                Event::Key(key)
            }
            Happening::Tick => Event::Sample(Box::new(
                look(&interface, &state.wanted(), &mut gauge).await?,
            )),
            Happening::Input(_) => continue,
            Happening::Said(Said::Leave) => return Ok(()),
            Happening::Said(Said::Stop) => {
                suspend(&mut screen)?;
                continue;
            }
            Happening::Said(Said::GoOn) => {
                screen.come_back()?;
                continue;
            }
        };
        let mut effect;
        (state, effect) = state.after(event);
        // The result of an effect may have an effect itself.
        while effect != Effect::None {
            screen.draw(|frame| draw(frame, &state, theme))?;
            let event = match effect {
                Effect::Leave => return Ok(()),
                Effect::Suspend => {
                    suspend(&mut screen)?;
                    break;
                }
                Effect::Check(action) => Event::Warning(actions::warning(&interface, action).await),
                Effect::Do(action) => Event::Done(actions::run(&interface, action).await),
                Effect::None => break,
            };
            (state, effect) = state.after(event);
        }
    }
}

/// Takes a sample. Opens the attachment anew each time, because a change may have brought another program, or
/// `detach` may have removed it.
async fn look(interface: &str, wanted: &Wanted, gauge: &mut Gauge) -> Result<Sample, Error> {
    let attachment = Attachment::open(interface).await?;
    collect::sample(&attachment, wanted, gauge)
}

/// Gives the terminal to the shell, which may continue this process later.
fn suspend(screen: &mut Screen) -> io::Result<()> {
    screen.leave();
    raise(Signal::SIGSTOP)?;
    screen.come_back()
}

struct Happenings {
    signals: Signals,
    ticks: time::Interval,
    input: UnboundedReceiver<io::Result<Input>>,
}

enum Happening {
    Input(Input),
    Tick,
    Said(Said),
}

impl Happenings {
    async fn next(&mut self) -> anyhow::Result<Happening> {
        tokio::select! {
            // The signal to leave comes first, even if there is much else to do.
            biased;
            said = self.signals.next() => Ok(Happening::Said(said)),
            input = self.input.recv() => match input {
                Some(input) => Ok(Happening::Input(input?)),
                None => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            },
            _ = self.ticks.tick() => Ok(Happening::Tick),
        }
    }
}
