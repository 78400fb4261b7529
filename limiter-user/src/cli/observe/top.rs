//! `limiter top`.

mod actions;

use std::{env, io, num::NonZeroUsize, pin::Pin, time::Duration};

use clap::Args;
use nix::sys::signal::{Signal, raise};
use ratatui::crossterm::event::{Event as Input, KeyEventKind};
use tokio::{
    signal::unix::{self, SignalKind, signal},
    sync::mpsc::UnboundedReceiver,
    time::{self, MissedTickBehavior, sleep},
};

use crate::{
    cli::shared::{
        interruption::interruption,
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
    let sample = twice(&arguments).await?;
    if arguments.json {
        return print_json(&source::Top::new(&sample));
    }
    Ok(print(&show::source::top(&sample))?)
}

/// The second of two samples, so that there are rates.
async fn twice(arguments: &Top) -> Result<Sample, Error> {
    let wanted = Wanted {
        order: Order::default(),
        filter: Filter::All,
        most: arguments.most.map_or(PRINTED, NonZeroUsize::get),
    };
    let mut gauge = Gauge::default();
    look(&arguments.interface, &wanted, &mut gauge).await?;
    sleep(arguments.interval).await;
    look(&arguments.interface, &wanted, &mut gauge).await
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
    let mut happenings = Happenings::new(arguments.interval)?;
    // From here on this process has only the rights that its keys need.
    sandbox::confine()?;
    let mut screen = Screen::enter()?;
    let mut input = terminal::input();
    let theme = Theme::of(variable);
    loop {
        screen.draw(|frame| draw(frame, &state, theme))?;
        let event = match happenings.next(&mut input).await? {
            Happening::Input(Input::Key(key)) if key.kind != KeyEventKind::Release => {
                Event::Key(key)
            }
            Happening::Tick => Event::Sample(Box::new(
                look(&interface, &state.wanted(), &mut gauge).await?,
            )),
            Happening::Input(_) => continue,
            Happening::Leave => return Ok(()),
            Happening::Stop => {
                suspend(&mut screen)?;
                continue;
            }
            Happening::GoOn => {
                screen.come_back()?;
                continue;
            }
        };
        let effect;
        (state, effect) = state.after(event);
        let result = match effect {
            Effect::None => continue,
            Effect::Leave => return Ok(()),
            Effect::Suspend => {
                suspend(&mut screen)?;
                continue;
            }
            Effect::Check(action) => Event::Warning(actions::warning(&interface, action).await),
            Effect::Do(action) => {
                screen.draw(|frame| draw(frame, &state, theme))?;
                Event::Done(actions::run(&interface, action).await)
            }
        };
        (state, _) = state.after(result);
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

/// The signals, which have no default action any more, and the times of readings.
struct Happenings {
    interrupted: Pin<Box<dyn Future<Output = ()>>>,
    quit: unix::Signal,
    stop: unix::Signal,
    go_on: unix::Signal,
    ticks: time::Interval,
}

enum Happening {
    Input(Input),
    Tick,
    /// End the process.
    Leave,
    /// Stop the process for a while.
    Stop,
    /// Continue after a stop, even one that another process caused.
    GoOn,
}

impl Happenings {
    fn new(interval: Duration) -> io::Result<Self> {
        // The caller has taken the first sample.
        let mut ticks = time::interval_at(time::Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            interrupted: Box::pin(interruption()?),
            quit: signal(SignalKind::quit())?,
            stop: signal(SignalKind::from_raw(libc::SIGTSTP))?,
            go_on: signal(SignalKind::from_raw(libc::SIGCONT))?,
            ticks,
        })
    }

    async fn next(
        &mut self,
        input: &mut UnboundedReceiver<io::Result<Input>>,
    ) -> io::Result<Happening> {
        tokio::select! {
            // The signals to leave come first, even if there is much else to do.
            biased;
            () = &mut self.interrupted => Ok(Happening::Leave),
            _ = self.quit.recv() => Ok(Happening::Leave),
            _ = self.stop.recv() => Ok(Happening::Stop),
            _ = self.go_on.recv() => Ok(Happening::GoOn),
            input = input.recv() => {
                let gone = || Err(io::ErrorKind::UnexpectedEof.into());
                Ok(Happening::Input(input.unwrap_or_else(gone)?))
            }
            _ = self.ticks.tick() => Ok(Happening::Tick),
        }
    }
}
