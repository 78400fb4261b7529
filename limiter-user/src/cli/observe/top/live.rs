//! The live view: readings, keys, and commands that the user asks for.

use std::{
    env,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crossterm::event::Event;
use limiter_kernel::Attachment;
use tokio::time::{self, MissedTickBehavior};

use super::{
    keys::{Reaction, Seat},
    look::look,
    places,
};
use crate::{
    cli::shared::{OwnSession, Usage, interruption, own_session},
    helper::{self, Channel, Deed, Done},
    observe::{Choice, collect, sample::Gauge},
    sandbox,
    show::{
        live::{Dialog, Page, Palette, Told, View},
        screen,
        screen::Screen,
    },
};

/// Fails unless there is a terminal.
pub fn check_terminal(interfaces: &[String]) -> anyhow::Result<()> {
    let Some(why) = screen::missing(env::var("TERM").ok().as_deref()) else {
        return Ok(());
    };
    let names = interfaces.join(" ");
    let text =
        format!("the live view needs a terminal, and {why}: use `limiter top {names} --once`");
    Err(Usage(text).into())
}

pub async fn run(
    interfaces: Vec<String>,
    interval: Duration,
    is_coloured: bool,
) -> anyhow::Result<()> {
    let session = own_session();
    let places = places(&interfaces).await;
    let gauge = Gauge::showing(Choice::scrolled(screen::height()?));
    let mut gauge = gauge.with_places(Arc::clone(&places));
    // Errors are reported before the view takes the screen.
    let sample = look(&interfaces[0], &mut gauge).await?;
    let mut seat = Seat {
        gauge,
        client: session.as_ref().map(OwnSession::client),
        pending: None,
        explains: false,
        view: View::new(sample, interval, Palette { is_coloured }),
    };
    let mut shown = Shown {
        has_all: interfaces.len() > 1,
        interfaces,
        current: 0,
    };
    seat.view.has_others = shown.has_all || shown.attached().await?.len() > 1;
    let interrupted = interruption()?;
    tokio::pin!(interrupted);
    let mut ticks = time::interval_at(time::Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // It has the rights to change attachments. Without it, the view says which command to type.
    let variable = session.as_ref().map(OwnSession::variable);
    let mut deeds = helper::start_deeds(variable).ok();
    // The view changes nothing: from here on this process has only the rights to read.
    sandbox::confine(sandbox::TO_READ)?;
    if is_coloured {
        // The library looks at NO_COLOR itself; `--color always` is stronger.
        crossterm::style::force_color_output(true);
    }
    let mut screen = Screen::enter()?;
    let mut input = screen::input();
    let mut is_waiting = false;
    loop {
        seat.view.now = SystemTime::now();
        screen.draw(|frame| seat.view.draw(frame))?;
        let reaction = tokio::select! {
            // The signals to leave come first, even if there is much else to do.
            biased;
            () = &mut interrupted => return Ok(()),
            event = input.recv() => match event.transpose()? {
                Some(Event::Key(key)) if key.is_press() => seat.press(key),
                Some(Event::Resize(..)) => Reaction::Clear,
                Some(_) => Reaction::None,
                None => return Ok(()),
            },
            done = answer(&mut deeds), if is_waiting => {
                is_waiting = false;
                seat.view.dialog = None;
                if done.is_none() {
                    deeds = None;
                }
                match done {
                    Some(Done { text, is_table: true, .. }) => {
                        let lines = text.lines().map(str::to_owned).collect();
                        seat.view.page = Some(Page::new(seat.content(lines)));
                    }
                    done => seat.view.result = Some(told(done)),
                }
                Reaction::None
            },
            _ = ticks.tick() => {
                if !seat.view.paused {
                    seat.gauge.choice.around = screen::height()?;
                    seat.view.sample = look(shown.name(), &mut seat.gauge).await?;
                }
                Reaction::None
            }
        };
        match reaction {
            Reaction::None => {}
            Reaction::Quit => return Ok(()),
            Reaction::Clear => {
                screen.clear()?;
                scroll(shown.name(), &mut seat).await?;
            }
            Reaction::Scroll => scroll(shown.name(), &mut seat).await?,
            Reaction::Next => {
                let next = shown.next().await?;
                if next.is_none() {
                    seat.view.result = Some(Told {
                        text: "limiter is attached to no other interface".to_owned(),
                        is_error: true,
                    });
                }
                if let Some(name) = next {
                    let gauge = Gauge::showing(seat.gauge.choice.anew());
                    seat.gauge = gauge.with_places(Arc::clone(&places));
                    seat.view.scrolled = 0;
                    seat.view.sample = look(&name, &mut seat.gauge).await?;
                }
            }
            Reaction::Do(deed) => {
                is_waiting = ask(&mut deeds, &deed, &mut seat.view).await;
            }
        }
    }
}

/// Shows the sources around the chosen one.
async fn scroll(interface: &str, seat: &mut Seat) -> anyhow::Result<()> {
    seat.gauge.choice.around = screen::height()?;
    let attachment = Attachment::open(interface).await?;
    Ok(collect::scroll(
        &attachment,
        &seat.gauge,
        &mut seat.view.sample,
    )?)
}

/// Asks for a command. Returns true if its end is to be waited for.
async fn ask(deeds: &mut Option<Channel>, deed: &Deed, view: &mut View) -> bool {
    let command = deed.words().join(" ");
    let asked = match deeds {
        Some(channel) => channel.send(deed).await.is_ok(),
        None => false,
    };
    if asked {
        view.dialog = Some(Dialog::Waiting(command));
    } else {
        *deeds = None;
        view.result = Some(Told {
            text: format!("this view cannot run commands any more: type `limiter {command}`"),
            is_error: true,
        });
    }
    asked
}

/// The end of a command; none if the process that runs it is gone.
async fn answer(deeds: &mut Option<Channel>) -> Option<Done> {
    deeds.as_mut()?.receive().await.ok().flatten()
}

fn told(done: Option<Done>) -> Told {
    match done {
        Some(Done { text, is_error, .. }) => Told { text, is_error },
        None => Told {
            text: "the process that runs commands has ended: type the command".to_owned(),
            is_error: true,
        },
    }
}

/// The interfaces that the view can show.
struct Shown {
    interfaces: Vec<String>,
    current: usize,
    /// True if these were given, so that others are not shown.
    has_all: bool,
}

impl Shown {
    fn name(&self) -> &str {
        &self.interfaces[self.current]
    }

    async fn attached(&self) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        Attachment::visit_all(async |attachment: Attachment| {
            names.push(attachment.interface.name);
        })
        .await?;
        names.sort();
        Ok(names)
    }

    /// Goes to the next interface: of those that were given, or, if it is one, of all attached ones. None if there is no
    /// other.
    async fn next(&mut self) -> anyhow::Result<Option<String>> {
        if !self.has_all {
            let name = self.name().to_owned();
            self.interfaces = self.attached().await?;
            let place = self.interfaces.iter().position(|other| *other == name);
            self.current = match place {
                Some(place) => place,
                None => {
                    self.interfaces.push(name);
                    self.interfaces.len() - 1
                }
            };
        }
        self.current = (self.current + 1) % self.interfaces.len();
        Ok((self.interfaces.len() > 1).then(|| self.name().to_owned()))
    }
}
