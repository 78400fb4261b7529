use std::{
    io,
    num::NonZeroU64,
    os::fd::AsFd,
    path::PathBuf,
    time::{Duration, Instant, UNIX_EPOCH},
};

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use ipnet::IpNet;
use limiter_common::{
    abi::events::{EVENT_BURST, EVENT_COST, SNAP_MAX},
    policy::verdict::Reason,
};
use limiter_config::Direction;
use limiter_kernel::{
    ops::watch::{Filter, Watching},
    sys::clock,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{
    cli::shared::{about, answer, file_size, interface, interruption, note, prefix},
    observe,
    plan::capture::{Interface, Writer, Written},
    show::{self, units::grouped},
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
    #[arg(long, conflicts_with = "write")]
    json: bool,
    /// Write the packets to this new pcapng file instead, with verdict and reason
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Write at most the first N bytes of each packet
    #[arg(long, value_name = "N", requires = "write", default_value_t = 128,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(SNAP_MAX)))]
    snap: u32,
    /// Keep the file at most this long: rename a full one to FILE.1, and begin again
    #[arg(long, value_name = "SIZE", requires = "write", value_parser = file_size)]
    rotate: Option<u64>,
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
        snap: arguments.write.as_ref().map_or(0, |_| arguments.snap),
    };
    let watching = Watching::start(&arguments.interface, filter).await;
    let watching = watching.map_err(about(&arguments.interface))?;
    let file = arguments.write.map(|path| {
        let interface = Interface {
            name: watching.interface.clone(),
            in_stack: watching.in_stack,
            no_ethernet: watching.no_ethernet,
            outgoing: watching.direction == Direction::Out,
            snap: arguments.snap,
        };
        Writer::create(&path, interface, arguments.rotate)
    });
    let file = file.transpose()?;
    let done = if file.is_some() { "written" } else { "shown" };
    let name = &watching.interface;
    note(&format!("{name}: drops are {done} until you press Ctrl-C"));
    let mut showing = Showing {
        watching,
        file,
        done,
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
    /// The capture, instead of standard output.
    file: Option<Writer>,
    /// The word for shown drops.
    done: &'static str,
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
        while self.shown < self.most && (self.file.is_some() || takes_more()?) {
            let Some((raw, bytes)) = self.watching.next_event() else {
                break;
            };
            let limit = self.watching.limit(raw.slot);
            let event = observe::event::event(&self.watching.interface, limit, &raw)?;
            if let Some(file) = &mut self.file {
                let interface = &self.watching.interface;
                anyhow::ensure!(
                    !bytes.is_empty(),
                    "the program on {interface} copies no packets, because it is of an earlier build, or Linux older than 5.18: `limiter set` or `limiter reload` loads a new one"
                );
                let time = clock::wall(raw.nanoseconds)?.duration_since(UNIX_EPOCH)?;
                let written = Written {
                    time,
                    length: raw.length,
                    bytes: &bytes,
                    is_dropped: raw.would_drop == 0,
                    comment: &show::watch::verdict(&event),
                };
                file.write(&written)?;
            } else {
                answer(self.json, &event, || show::watch::line(&event))?;
            }
            self.shown += 1;
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
            let [burst, rate] = [EVENT_BURST, 1_000_000_000 / EVENT_COST].map(grouped);
            note(&format!(
                "not all drops are {}: each CPU reports at most {burst} at once and {rate} per second; --source, --limit and --reason select drops",
                self.done
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
        let (interface, shown, lost) =
            (&self.watching.interface, grouped(self.shown), grouped(lost));
        note(&format!("{interface}: {shown} {}, {lost} lost", self.done));
        Ok(())
    }
}

/// Returns true if standard output takes a line without waiting. Fails if its reader is gone.
pub fn takes_more() -> io::Result<bool> {
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
