use std::time::{Duration, Instant};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use limiter_common::abi::events::{EVENT_BURST, EVENT_COST};
use limiter_kernel::ops::log::{Logging, State};

use super::watch::takes_more;
use crate::{
    cli::shared::{SECOND, about, answer, duration, interface, interruption, note},
    observe::log::{LEVELS, LogLine},
    show::{self, units::grouped},
};

/// Interval between reads of the messages.
const INTERVAL: Duration = Duration::from_millis(20);
/// Interval between checks that the log still runs.
const CHECK: Duration = Duration::from_millis(500);
/// The longest log, in milliseconds.
const LONGEST: u64 = 60 * 60 * SECOND;

/// Print what the kernel program reports, for a time
///
/// It loads the program again with its messages switched on, over the same buckets, and puts it back at the end: after Ctrl-C at
/// once, and after its time by itself, even if this process was killed.
#[derive(Debug, Args)]
pub struct Log {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    interface: String,
    /// Messages up to this level: error (no room in the table), warn (contention), info (the end), debug (new sources that are
    /// refused, answers and proofs of handshakes, malformed packets), trace (each drop)
    #[arg(long, default_value = "debug", value_parser = level(), hide_possible_values = true)]
    level: u32,
    /// End after this time: 1s to 1h
    #[arg(long = "for", value_name = "DURATION", default_value = "5m", value_parser = duration(SECOND..=LONGEST, "30s"), allow_hyphen_values = true)]
    time: Duration,
    /// Print one line of JSON per message, for programs
    #[arg(long)]
    json: bool,
}

/// The number of a level, by its name.
fn level() -> impl TypedValueParser<Value = u32> {
    PossibleValuesParser::new(LEVELS).try_map(|name| {
        let level = (1..).zip(LEVELS).find(|(_, level)| *level == name);
        level.map(|(number, _)| number).ok_or("unknown level")
    })
}

pub async fn run(arguments: Log) -> anyhow::Result<()> {
    let stop = interruption()?;
    let name = &arguments.interface;
    let logging = Logging::start(name, arguments.level, arguments.time).await;
    let mut showing = Showing {
        logging: logging.map_err(about(name))?,
        json: arguments.json,
        shown: 0,
    };
    note(&format!(
        "{name}: messages are shown until you press Ctrl-C, at most until {}",
        showing.logging.until
    ));
    let ended = showing.until(stop).await;
    let stopped = showing.logging.stop().await;
    let shown = ended.and_then(|state| showing.show_all().map(|()| state));
    showing.sum_up(shown.as_ref().ok())?;
    stopped.map_err(about(name))?;
    shown.map(|_| ())
}

struct Showing {
    logging: Logging,
    json: bool,
    shown: u64,
}

impl Showing {
    /// Shows messages until `stop` is ready, or the log has ended.
    async fn until(&mut self, stop: impl Future<Output = ()>) -> anyhow::Result<State> {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(stop);
        let mut checked = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return Ok(State::Running),
                _ = interval.tick() => {}
            }
            self.show_all()?;
            if checked.elapsed() >= CHECK {
                checked = Instant::now();
                let state = self.logging.check().await?;
                if state != State::Running {
                    return Ok(state);
                }
            }
        }
    }

    /// Shows the available messages, as long as the reader takes them.
    fn show_all(&mut self) -> anyhow::Result<()> {
        while takes_more()? {
            let Some(message) = self.logging.next_message() else {
                break;
            };
            let names = |slot| self.logging.limit(slot);
            if let Some(line) = LogLine::new(&self.logging.interface, &message, names) {
                answer(self.json, &line, || show::log::line(&line))?;
                self.shown += 1;
            }
        }
        Ok(())
    }

    fn sum_up(&mut self, state: Option<&State>) -> anyhow::Result<()> {
        let mut lost = self.logging.lost()?;
        // These messages were never shown.
        while self.logging.next_message().is_some() {
            lost += 1;
        }
        let interface = &self.logging.interface;
        match state {
            Some(State::Over) => note(&format!("{interface}: the log's time is over")),
            Some(State::Ended) => note(&format!("{interface}: another command has ended the log")),
            _ => {}
        }
        let (shown, missing) = (grouped(self.shown), grouped(lost));
        note(&format!("{interface}: {shown} shown, {missing} lost"));
        if lost > 0 {
            let [burst, rate] = [EVENT_BURST, 1_000_000_000 / EVENT_COST].map(grouped);
            note(&format!(
                "each CPU reports at most {burst} messages at once and {rate} per second: a lower --level reports fewer"
            ));
        }
        Ok(())
    }
}
