mod live;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use limiter_common::policy::verdict::Reason;
use limiter_config::{Direction, Exempt, names::direction_of};
use limiter_kernel::Attachment;

use crate::{
    cli::shared::{
        ForPrograms, MINUTE, Progress, SECOND, about, document, duration, interface, note,
        note_capture, own_session, print,
    },
    ordinary,
    plan::{
        capture::Capture,
        flood::{self, Asked, Guard, KEPT_MAX, Picture, Sample},
    },
    show::{self, units::counted},
};

/// Seconds of ordinary traffic that a saved picture remembers: a week of ten seconds in each ten minutes.
const MEMORY: f64 = 10_080.0;
/// A picture takes no traffic of so many times its rate, because that may be a flood.
const SUDDEN: f64 = 10.0;
/// Rates below this, in packets per second, are never too much.
const QUIET: f64 = 1_000.0;

/// Find the pattern of a flood, and a limit that holds it
///
/// It samples packets for some seconds, dropped ones and others, and changes no verdict. It compares them with a picture of
/// ordinary traffic, which --save makes.
#[derive(Debug, Args)]
pub struct Explain {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface, required_unless_present = "capture")]
    interface: Option<String>,
    /// Time to watch: 1s to 10m; Ctrl-C ends it early
    #[arg(long = "for", value_name = "DURATION", value_parser = duration(SECOND..=10 * MINUTE, "10s"), default_value = "10s", allow_hyphen_values = true)]
    time: Duration,
    /// Explain a capture (pcap or pcapng) instead of the traffic of an interface; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interface", "time", "save"])]
    capture: Option<PathBuf>,
    /// Compare with this capture of ordinary traffic instead of the saved picture
    #[arg(long, value_name = "FILE", conflicts_with = "save")]
    ordinary: Option<PathBuf>,
    /// Add the traffic to the saved picture of ordinary traffic instead; refused if a limit refuses a packet meanwhile
    #[arg(long, conflicts_with_all = ["loose", "no_payload"])]
    save: bool,
    /// Offer patterns that match up to 20 % of ordinary packets too, instead of 1 %
    #[arg(long)]
    loose: bool,
    /// Offer no pattern about bytes of the payload
    #[arg(long)]
    no_payload: bool,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Explain) -> anyhow::Result<()> {
    arguments.programs.answer();
    match &arguments.interface {
        Some(name) if arguments.save => save(name, &arguments).await,
        Some(name) => of_interface(name, &arguments).await,
        None => of_capture(&arguments),
    }
}

/// Explains the traffic of an interface.
async fn of_interface(name: &str, arguments: &Explain) -> anyhow::Result<()> {
    let attachment = Attachment::open(name).await.map_err(about(name))?;
    let settings = attachment.own_settings()?;
    refuse_outgoing(name, settings.direction)?;
    let salt = fastrand::u64(..);
    let picture = match &arguments.ordinary {
        Some(_) => picture_of_capture(arguments, salt)?,
        None => ordinary::read(name)?,
    };
    let salt = picture.as_ref().map_or(salt, |picture| picture.salt);
    drop(attachment);
    let (sample, seconds) = live::sample(name, arguments.time, salt).await?;
    let names: Vec<_> = settings
        .limits
        .into_iter()
        .map(|limit| limit.name)
        .collect();
    if settings.shadow {
        note(&format!(
            "{name} is in shadow: a limit drops nothing until `limiter set {name} --shadow off`"
        ));
    }
    let guard = guard(settings.exempt);
    let asked = Asked {
        interface: Some(name),
        seconds,
        names: &names,
        guard: &guard,
        loose: arguments.loose,
        without_payload: arguments.no_payload,
    };
    answer(arguments, &asked, &sample, picture.as_ref())
}

/// Explains a capture.
fn of_capture(arguments: &Explain) -> anyhow::Result<()> {
    let Some(path) = &arguments.capture else {
        // clap's parser prevents this.
        anyhow::bail!("nothing to explain: write an interface, or --capture FILE");
    };
    let salt = fastrand::u64(..);
    let picture = picture_of_capture(arguments, salt)?;
    let (sample, seconds) = read(path, salt)?;
    let guard = guard(Exempt::default());
    let asked = Asked {
        interface: None,
        seconds,
        names: &[],
        guard: &guard,
        loose: arguments.loose,
        without_payload: arguments.no_payload,
    };
    answer(arguments, &asked, &sample, picture.as_ref())
}

fn answer(
    arguments: &Explain,
    asked: &Asked<'_>,
    sample: &Sample,
    picture: Option<&Picture>,
) -> anyhow::Result<()> {
    let explanation = flood::explain(asked, sample, picture);
    let text = || show::flood::text(&explanation);
    document(arguments.programs.json, &explanation, text)
}

/// The packets that rules leave out, with the SSH session of this command.
fn guard(exempt: Exempt) -> Guard {
    Guard {
        exempt,
        session: own_session().map(|own| own.session()),
    }
}

fn refuse_outgoing(name: &str, direction: Direction) -> anyhow::Result<()> {
    anyhow::ensure!(
        direction == Direction::In,
        "{name} limits packets that the host sends, and `explain` reads packets that arrive: `limiter watch {name} --by source,port` shows them"
    );
    let (_, named) = direction_of(name);
    anyhow::ensure!(named == Direction::In, "{name} is not of arriving packets");
    Ok(())
}

/// The picture of `--ordinary`.
fn picture_of_capture(arguments: &Explain, salt: u64) -> anyhow::Result<Option<Picture>> {
    let Some(path) = &arguments.ordinary else {
        return Ok(None);
    };
    let (sample, seconds) = read(path, salt)?;
    Ok(Some(Picture::of_sample(salt, &sample, seconds, usize::MAX)))
}

/// Reads a whole capture.
fn read(path: &std::path::Path, salt: u64) -> anyhow::Result<(Sample, f64)> {
    let mut capture = Capture::open(path)?;
    let progress = Progress::of_capture(path);
    let sample = flood::read::sample(&mut capture, salt, |capture| progress.set_read(capture));
    drop(progress);
    note_capture(&capture)?;
    Ok(sample)
}

/// Adds traffic to the saved picture of an interface.
async fn save(name: &str, arguments: &Explain) -> anyhow::Result<()> {
    let old = ordinary::read(name)?;
    let salt = old
        .as_ref()
        .map_or_else(|| fastrand::u64(..), |old| old.salt);
    let before = refusals(name).await?;
    let (sample, seconds) = live::sample(name, arguments.time, salt).await?;
    let refused = refusals(name).await?.wrapping_sub(before);
    anyhow::ensure!(
        refused == 0,
        "{name}: limits refused {} meanwhile, so the traffic is not ordinary, and the picture stays as it was: run it at an ordinary time",
        counted(refused, "packet")
    );
    let new = Picture::of_sample(salt, &sample, seconds, KEPT_MAX);
    if let Some(old) = &old {
        let most = (SUDDEN * old.limited_per_second).max(QUIET);
        anyhow::ensure!(
            new.limited_per_second <= most,
            "{name}: {:.0} packets per second came, and {:.0} in the picture, which stays as it was: run it at an ordinary time",
            new.limited_per_second,
            old.limited_per_second
        );
    }
    let picture = old.map_or_else(|| new.clone(), |old| old.with(&new, MEMORY));
    let (packets, rate) = (picture.shapes.len() as u64, picture.packets_per_second);
    ordinary::write(name, picture)?;
    Ok(print(&format!(
        "{name}: the picture of ordinary traffic has {}, {rate:.0} a second\n",
        counted(packets, "packet")
    ))?)
}

/// Packets that limits have refused so far, also in shadow.
async fn refusals(name: &str) -> anyhow::Result<u64> {
    let attachment = Attachment::open(name).await.map_err(about(name))?;
    refuse_outgoing(name, attachment.record.settings.direction)?;
    let counters = attachment.tables.counters()?;
    let refused = [
        Reason::Limit,
        Reason::NewSource,
        Reason::Contended,
        Reason::Answered,
        Reason::WouldDrop,
    ];
    let packets = refused.map(|reason| counters.by_reason[reason as usize].packets);
    Ok(packets.iter().sum())
}
