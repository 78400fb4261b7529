use std::{
    io::{IsTerminal, stdout},
    time::{Duration, Instant},
};

use clap::Args;
use limiter_kernel::{Attachment, Error, Result};
use tokio::time::sleep;

use crate::{
    ask,
    cli::shared::{
        ForPrograms, MINUTE, SECOND, document, duration, interface, is_all, note, terminal_width,
        unique,
    },
    observe::{self, Interface, collect, feeds, rates},
    show,
    viewer::{self, INTERVAL_MIN, Viewer},
};

/// Show each attachment, its limits and its counters
#[derive(Debug, Args)]
pub struct Status {
    /// The interfaces, separated by spaces or commas. Default: all that limiter is attached to
    #[arg(value_name = "IFACE", value_delimiter = ',', value_parser = interface)]
    interfaces: Vec<String>,
    /// Measure rates over this time. 100ms to 1m. Default: 1s on a terminal, otherwise no rates
    #[arg(long, value_name = "DURATION", value_parser = duration(100..=MINUTE, "500ms"))]
    interval: Option<Duration>,
    #[command(flatten)]
    programs: ForPrograms,
}

impl Status {
    /// The time between two readings; none for one reading, which takes no time.
    fn interval(&self) -> Option<Duration> {
        let is_for_people = !self.programs.json && stdout().is_terminal();
        let default = is_for_people.then_some(Duration::from_millis(SECOND));
        self.interval.or(default)
    }

    fn is_of_all(&self) -> bool {
        self.interfaces.is_empty() || is_all(&self.interfaces)
    }

    /// Opens the attachments one after the other. Returns the errors of those that cannot be opened.
    async fn visit(&self, mut each: impl AsyncFnMut(Attachment)) -> anyhow::Result<Vec<Error>> {
        if self.is_of_all() {
            return Ok(Attachment::visit_all(each).await?);
        }
        let mut errors = Vec::new();
        for name in unique(&self.interfaces) {
            match Attachment::open(name).await {
                Ok(attachment) => each(attachment).await,
                Err(error) if self.interfaces.len() == 1 => return Err(error.into()),
                Err(error) => errors.push(error),
            }
        }
        Ok(errors)
    }

    /// The earlier reading, with its moment, after `interval` has passed. Errors are those of the later one.
    async fn earlier(&self, interval: Duration) -> anyhow::Result<Vec<(Interface, Instant)>> {
        let mut earlier = Vec::new();
        let read = async |attachment: Attachment| {
            let sample = collect::once(&attachment, 0);
            earlier.extend(sample.map(|sample| (sample.interface, Instant::now())));
        };
        self.visit(read).await?;
        if !earlier.is_empty() {
            sleep(interval).await;
        }
        Ok(earlier)
    }
}

pub async fn run(arguments: Status) -> anyhow::Result<()> {
    arguments.programs.answer();
    if let Some(viewer) = viewer::needed() {
        return by_socket(&arguments, &viewer).await;
    }
    let earlier = match arguments.interval() {
        Some(interval) => arguments.earlier(interval).await?,
        None => Vec::new(),
    };
    let mut interfaces = Vec::new();
    let read = async |attachment: Attachment| {
        let interface = collect::interface(&attachment, ask::PATIENCE).await;
        interfaces.push(interface.map(|interface| with_rates(interface, &earlier)));
    };
    let errors = arguments.visit(read).await?;
    let interfaces = interfaces.into_iter().collect::<Result<_>>()?;
    let feeds = feeds::all();
    let status = observe::Status { interfaces, feeds };
    for error in &errors {
        note(&error.to_string());
    }
    // After a trial with nothing before it, an interface has nothing to show.
    let is_failure =
        |error: &&Error| !(arguments.is_of_all() && matches!(error, Error::TrialOver(..)));
    let failures = errors.iter().filter(is_failure).count();
    shown(arguments.programs.json, &status, failures)
}

/// Prints the state, and fails if attachments are missing in it. Notes have told why.
fn shown(json: bool, status: &observe::Status, failures: usize) -> anyhow::Result<()> {
    let is_nothing = status.interfaces.is_empty() && failures > 0;
    let text = || match is_nothing {
        // "Not attached" would contradict the notes.
        true => String::new(),
        false => show::status::status(status, terminal_width()),
    };
    document(json, status, text)?;
    match failures {
        0 => Ok(()),
        count => Err(not_shown(count)),
    }
}

/// Shows what the exporter answers.
async fn by_socket(arguments: &Status, viewer: &Viewer) -> anyhow::Result<()> {
    let names = match arguments.is_of_all() {
        true => Vec::new(),
        false => unique(&arguments.interfaces),
    };
    let mut earlier = Vec::new();
    if let Some(interval) = arguments.interval() {
        let (snapshot, _) = viewer.snapshot(&names).await?;
        let interfaces = snapshot.status.interfaces.into_iter();
        earlier.extend(interfaces.map(|interface| (interface, Instant::now())));
        sleep(interval.max(INTERVAL_MIN)).await;
    }
    let (mut snapshot, errors) = viewer.snapshot(&names).await?;
    let interfaces = snapshot.status.interfaces.into_iter();
    snapshot.status.interfaces = interfaces
        .map(|interface| with_rates(interface, &earlier))
        .collect();
    if let ([error], 1) = (&errors[..], names.len()) {
        anyhow::bail!("{error}");
    }
    errors.iter().for_each(|error| note(&error.to_string()));
    if names.is_empty() {
        // After a trial with nothing before it, an interface has nothing to show.
        snapshot.trials_over.iter().for_each(|text| note(text));
    }
    shown(arguments.programs.json, &snapshot.status, errors.len())
}

fn not_shown(count: usize) -> anyhow::Error {
    anyhow::anyhow!("{count} of the attachments cannot be shown: see the errors above")
}

fn with_rates(mut interface: Interface, earlier: &[(Interface, Instant)]) -> Interface {
    let mut earlier = earlier.iter();
    if let Some((before, then)) = earlier.find(|(before, _)| before.name == interface.name) {
        rates::add(&mut interface, before, then.elapsed().as_secs_f64());
    }
    interface
}
