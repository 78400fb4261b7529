mod by;
mod thinner;

use std::{
    io,
    num::{NonZeroU32, NonZeroU64},
    os::fd::AsFd,
    path::PathBuf,
    time::{Duration, Instant, UNIX_EPOCH},
};

use by::{Summing, Wanted};
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
use thinner::Thinner;

use crate::{
    cli::shared::{
        DAY, SECOND, about, answer, duration, file_size, interface, interruption, note, prefix,
    },
    observe::{self, senders::Field},
    plan::capture::{Interface, Writer, Written},
    show::{self, units::grouped},
};

/// Interval between reads of the ring buffer. The program wakes no reader: that would cost it more than everything
/// else.
const INTERVAL: Duration = Duration::from_millis(20);
/// Interval between checks that there is still something to watch.
const CHECK: Duration = Duration::from_millis(500);

/// Print drops as they happen, or who sends
///
/// It runs until interrupted, and also shows packets that pass only because of shadow. Several may run at once.
#[derive(Debug, Args)]
pub struct Watch {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    interface: String,
    /// Show packets that pass, too: loads the program once more, and again at the end
    #[arg(long)]
    passed: bool,
    /// Print a table at the end instead, of all packets by these fields: who sends, whatever limit the packets meet
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',', value_parser = field(), conflicts_with_all = ["count", "write"])]
    by: Vec<Field>,
    /// Rows of the table; the others are summed
    #[arg(long, value_name = "N", requires = "by", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rows: u32,
    /// End after this time: 1s to 1day
    #[arg(long = "for", value_name = "DURATION", value_parser = duration(SECOND..=DAY, "10s"), allow_hyphen_values = true)]
    time: Option<Duration>,
    /// Only packets of sources in this prefix
    #[arg(long, value_name = "CIDR", value_parser = prefix)]
    source: Option<IpNet>,
    /// Only packets that this limit decided
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// Only packets with these reasons
    #[arg(long, value_parser = reason(), value_delimiter = ',', value_name = "REASON,...")]
    reason: Vec<Reason>,
    /// Exit after this number of packets
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<NonZeroU64>,
    /// Show at most so many packets per second: a random sample of more
    #[arg(long, value_name = "N", conflicts_with = "by")]
    per_second: Option<NonZeroU32>,
    /// Print one line of JSON per packet, for programs; of a table, one document
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

/// The names of reasons, with their texts as help. A packet that passes because of shadow has the reason of its drop.
fn reason() -> impl TypedValueParser<Value = Reason> {
    let reasons = Reason::ALL
        .into_iter()
        .filter(|reason| !reason.would_drop());
    let names = reasons.map(|reason| PossibleValue::new(reason.name()).help(reason.text()));
    PossibleValuesParser::new(names)
        .try_map(|name| Reason::from_name(&name).ok_or("unknown reason"))
}

/// The names of fields to sum by.
fn field() -> impl TypedValueParser<Value = Field> {
    PossibleValuesParser::new(Field::ALL.map(Field::name)).try_map(|name| {
        let mut all = Field::ALL.into_iter();
        all.find(|field| field.name() == name)
            .ok_or("unknown field")
    })
}

pub async fn run(arguments: Watch) -> anyhow::Result<()> {
    let interrupted = interruption()?;
    let time = arguments.time;
    // Begins once it is polled: when the program reports.
    let stop = async move {
        match time {
            None => interrupted.await,
            Some(time) => _ = tokio::time::timeout(time, interrupted).await,
        }
    };
    let filter = Filter {
        source: arguments.source,
        limit: arguments.limit.clone(),
        reasons: arguments.reason.clone(),
        passed: arguments.passed || !arguments.by.is_empty(),
        snap: arguments.write.as_ref().map_or(0, |_| arguments.snap),
    };
    let watching = Watching::start(&arguments.interface, filter).await;
    let watching = watching.map_err(about(&arguments.interface))?;
    if !arguments.by.is_empty() {
        let wanted = Wanted {
            fields: arguments.by,
            rows: arguments.rows as usize,
            json: arguments.json,
        };
        return sum(watching, wanted, time, stop).await;
    }
    lines(watching, arguments, stop).await
}

/// The end of a watch, in words.
fn end_of(time: Option<Duration>, count: Option<NonZeroU64>) -> String {
    let time = time.map(|time| format!("for {}", humantime::format_duration(time)));
    let count = count.map(|count| match count.get() {
        1 => "until there is 1".to_owned(),
        many => format!("until there are {}", grouped(many)),
    });
    let ends: Vec<_> = time.into_iter().chain(count).collect();
    match ends.join(", ") {
        ends if ends.is_empty() => "until you press Ctrl-C".to_owned(),
        ends => format!("{ends}, or until you press Ctrl-C"),
    }
}

/// Prints a table of who sends.
async fn sum(
    watching: Watching,
    wanted: Wanted,
    time: Option<Duration>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let name = watching.interface.clone();
    note(&format!(
        "{name}: packets are counted {}",
        end_of(time, None)
    ));
    let mut summing = Summing::new(watching, &wanted);
    let ended = summing.until(stop).await;
    summing.watching.stop();
    let printed = summing.print(&wanted);
    let finished = summing.watching.finish().await;
    ended.and(printed)?;
    finished.map_err(about(&name))
}

/// Prints a line for each packet, or writes it to a file.
async fn lines(
    mut watching: Watching,
    arguments: Watch,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let file = match new_file(&watching, &arguments) {
        Ok(file) => file,
        Err(error) => {
            watching.finish().await?;
            return Err(error);
        }
    };
    let name = watching.interface.clone();
    let mut showing = Showing {
        done: if file.is_some() { "written" } else { "shown" },
        packets: if watching.shows_passed() {
            "packets"
        } else if watching.in_shadow {
            "packets that would be dropped"
        } else {
            "drops"
        },
        watching,
        file,
        json: arguments.json,
        thinner: arguments
            .per_second
            .map(|most| Thinner::new(u32::from(most).into())),
        most: arguments.count.map_or(u64::MAX, u64::from),
        shown: 0,
        said_lost: false,
    };
    let shadow = match showing.watching.in_shadow {
        true => "SHADOW, nothing is dropped: ",
        false => "",
    };
    note(&format!(
        "{name}: {shadow}{} are {} {}",
        showing.packets,
        showing.done,
        end_of(arguments.time, arguments.count)
    ));
    let ended = showing.until(stop).await;
    showing.watching.stop();
    let ended = ended.and_then(|()| showing.show_all());
    let said = showing.sum_up();
    let finished = showing.watching.finish().await;
    said?;
    ended?;
    finished.map_err(about(&name))
}

/// The file of `--write`.
fn new_file(watching: &Watching, arguments: &Watch) -> anyhow::Result<Option<Writer>> {
    let file = arguments.write.as_ref().map(|path| {
        let interface = Interface {
            name: watching.interface.clone(),
            in_stack: watching.in_stack,
            no_ethernet: watching.no_ethernet,
            outgoing: watching.direction == Direction::Out,
            snap: arguments.snap,
        };
        Writer::create(path, interface, arguments.rotate)
    });
    file.transpose()
}

struct Showing {
    watching: Watching,
    /// The capture, instead of standard output.
    file: Option<Writer>,
    /// The word for the packets.
    packets: &'static str,
    /// The word for shown ones.
    done: &'static str,
    json: bool,
    thinner: Option<Thinner>,
    most: u64,
    shown: u64,
    said_lost: bool,
}

impl Showing {
    /// Shows packets until `stop` is ready, enough were shown, or there is nothing to watch any more.
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
            self.thin_out()?;
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
            if let Some(thinner) = &mut self.thinner
                && !thinner.admits()
            {
                continue;
            }
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
                    is_dropped: event.verdict == "drop",
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

    fn thin_out(&mut self) -> anyhow::Result<()> {
        if let Some(thinner) = &mut self.thinner
            && let Some(one_in) = thinner.next(Instant::now(), self.watching.lost()?)
        {
            self.watching.sample(one_in);
        }
        Ok(())
    }

    fn note_missing(&mut self) -> anyhow::Result<()> {
        // The output never waits for its reader, so that this is often enough.
        if self.watching.renew()? {
            note(
                "this process was stopped for some time; packets in that time are not counted as lost",
            );
        }
        if !self.said_lost && self.thinner.is_none() && self.watching.lost()? > 0 {
            self.said_lost = true;
            let [burst, rate] = [EVENT_BURST, 1_000_000_000 / EVENT_COST].map(grouped);
            note(&format!(
                "not all {0} are {1}: each CPU reports at most {burst} at once and {rate} per second; --source, --limit and --reason select {0}",
                self.packets, self.done
            ));
        }
        Ok(())
    }

    fn sum_up(&mut self) -> anyhow::Result<()> {
        if let Some(thinner) = &self.thinner {
            let (interface, shown) = (&self.watching.interface, grouped(self.shown));
            let most = grouped(thinner.most);
            note(&format!(
                "{interface}: {shown} {}, a sample of at most {most} per second",
                self.done
            ));
            return Ok(());
        }
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
