use std::{
    io,
    num::NonZeroU64,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use ipnet::IpNet;
use limiter_common::{
    abi::events::{EVENT_BURST, EVENT_COST},
    policy::verdict::Reason,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{
    cli::shared::{About, answer, interface, interruption, note, prefix},
    kernel::ops::watch::{Filter, Watching},
    observe, show,
    show::units::grouped,
};

/// Interval between reads of the ring buffer. The program wakes no reader: that would cost it more than everything
/// else.
const INTERVAL: Duration = Duration::from_millis(20);
/// Interval between checks that there is still something to watch.
const CHECK: Duration = Duration::from_millis(500);

/// Print drops as they happen
///
/// It runs until interrupted, and also shows packets that pass only because of shadow.
#[derive(Debug, Args)]
pub struct Watch {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    interface: String,
    /// Only drops of sources in this prefix
    #[arg(long, value_name = "CIDR", value_parser = prefix)]
    source: Option<IpNet>,
    /// Only drops by this limit
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// Only drops for these reasons
    #[arg(long, value_parser = drop_reason(), value_delimiter = ',', value_name = "REASON,...")]
    reason: Vec<Reason>,
    /// Exit after this number of drops
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<NonZeroU64>,
    /// Print one line of JSON per drop, for programs
    #[arg(long)]
    json: bool,
}

/// The names of reasons to drop, with their texts as help.
fn drop_reason() -> impl TypedValueParser<Value = Reason> {
    let names = Reason::drops().map(|reason| PossibleValue::new(reason.name()).help(reason.text()));
    PossibleValuesParser::new(names)
        .try_map(|name| Reason::from_name(&name).ok_or("unknown reason"))
}

pub async fn run(arguments: Watch) -> anyhow::Result<()> {
    let stop = interruption()?;
    let filter = Filter {
        source: arguments.source,
        limit: arguments.limit.clone(),
        reasons: arguments.reason.clone(),
    };
    let watching = Watching::start(&arguments.interface, filter).await;
    let watching = watching.about(&arguments.interface)?;
    note(&format!(
        "{}: drops are shown until you press Ctrl-C",
        watching.interface
    ));
    let mut showing = Showing {
        watching,
        json: arguments.json,
        most: arguments.count.map_or(u64::MAX, u64::from),
        shown: 0,
        said_lost: false,
    };
    let ended = showing.until(stop).await;
    showing.watching.stop();
    let ended = ended.and_then(|()| showing.show_all());
    showing.sum_up()?;
    ended
}

struct Showing {
    watching: Watching,
    json: bool,
    most: u64,
    shown: u64,
    said_lost: bool,
}

impl Showing {
    /// Shows drops until `stop` is ready, enough were shown, or there is nothing to watch any more.
    async fn until(&mut self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(stop);
        let mut checked = Instant::now();
        while self.shown < self.most {
            tokio::select! {
                biased;
                () = &mut stop => break,
                _ = interval.tick() => {}
            }
            self.show_all()?;
            if checked.elapsed() >= CHECK {
                checked = Instant::now();
                self.note_missing()?;
                self.watching.check().await?;
            }
        }
        Ok(())
    }

    /// Shows the available events, as long as the reader takes them.
    fn show_all(&mut self) -> anyhow::Result<()> {
        while self.shown < self.most && takes_more()? {
            let Some(raw) = self.watching.next_event() else {
                break;
            };
            let limit = self.watching.limit(raw.slot);
            let event = observe::event::event(&self.watching.interface, limit, &raw)?;
            self.shown += 1;
            answer(self.json, &event, || show::watch::line(&event))?;
        }
        Ok(())
    }

    fn note_missing(&mut self) -> anyhow::Result<()> {
        // The output never waits for its reader, so that this is often enough.
        if self.watching.renew()? {
            note(
                "this process was stopped for some time; drops in that time are not counted as lost",
            );
        }
        if !self.said_lost && self.watching.lost()? > 0 {
            self.said_lost = true;
            note(&format!(
                "not all drops are shown: each CPU reports at most {} at once and {} per second; --source, --limit and --reason select drops",
                grouped(EVENT_BURST),
                grouped(1_000_000_000 / EVENT_COST)
            ));
        }
        Ok(())
    }

    fn sum_up(&mut self) -> anyhow::Result<()> {
        let mut lost = self.watching.lost()?;
        if self.shown < self.most {
            // These events were never shown.
            while self.watching.next_event().is_some() {
                lost += 1;
            }
        }
        note(&format!(
            "{}: {} shown, {} lost",
            self.watching.interface,
            grouped(self.shown),
            grouped(lost)
        ));
        Ok(())
    }
}

/// Returns true if standard output takes a line without waiting. Fails if its reader is gone.
fn takes_more() -> io::Result<bool> {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)];
    match poll(&mut polled, PollTimeout::ZERO) {
        Err(nix::Error::EINTR) => return Ok(false),
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    let said = polled[0].revents().unwrap_or(PollFlags::empty());
    if said.contains(PollFlags::POLLERR) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(said.contains(PollFlags::POLLOUT))
}
