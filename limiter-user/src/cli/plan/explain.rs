mod live;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use limiter_common::policy::verdict::Reason;
use limiter_config::{Direction, Exempt, file, names::direction_of, places::Places};
use limiter_kernel::Attachment;

use crate::{
    cli::shared::{
        ForPrograms, MINUTE, Progress, SECOND, about, databases, document, duration, interface,
        note, note_capture,
        output::{UNUSUAL, exit_with},
        own_session, print,
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
    /// Show countries and autonomous systems of the sources by this database in MaxMind's format (.mmdb); repeatable. Without
    /// it, by those that the lists of the interface name
    #[arg(long = "database", value_name = "FILE")]
    databases: Vec<PathBuf>,
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
    let places = places(arguments, databases(&attachment))?;
    let picture = match &arguments.ordinary {
        Some(_) => picture_of_capture(arguments, salt, &places)?,
        None => ordinary::read(name)?,
    };
    let salt = picture.as_ref().map_or(salt, |picture| picture.salt);
    drop(attachment);
    let (sample, seconds) = live::sample(name, arguments.time, salt, places).await?;
    let limits: Vec<_> = settings
        .limits
        .into_iter()
        .map(|limit| {
            let matches = file::matches(&limit.matches);
            (limit.name, matches)
        })
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
        limits: &limits,
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
    let places = places(arguments, BTreeSet::new())?;
    let picture = picture_of_capture(arguments, salt, &places)?;
    let (sample, seconds) = read(path, salt, &places)?;
    let guard = guard(Exempt::default());
    let asked = Asked {
        interface: None,
        seconds,
        limits: &[],
        guard: &guard,
        loose: arguments.loose,
        without_payload: arguments.no_payload,
    };
    answer(arguments, &asked, &sample, picture.as_ref())
}

/// The databases of `--database`, which must be readable, or of the interface's lists.
fn places(arguments: &Explain, of_lists: BTreeSet<PathBuf>) -> anyhow::Result<Places> {
    let is_named = !arguments.databases.is_empty();
    let paths = match is_named {
        true => arguments.databases.iter().cloned().collect(),
        false => of_lists,
    };
    let (places, errors) = Places::open(&paths);
    for error in errors {
        anyhow::ensure!(!is_named, "{error}");
        note(&format!("some places of sources are not shown: {error}"));
    }
    Ok(places)
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
fn picture_of_capture(
    arguments: &Explain,
    salt: u64,
    places: &Places,
) -> anyhow::Result<Option<Picture>> {
    let Some(path) = &arguments.ordinary else {
        return Ok(None);
    };
    let (sample, seconds) = read(path, salt, places)?;
    Ok(Some(Picture::of_sample(salt, &sample, seconds, usize::MAX)))
}

/// Reads a whole capture.
fn read(path: &Path, salt: u64, places: &Places) -> anyhow::Result<(Sample, f64)> {
    let mut capture = Capture::open(path)?;
    let progress = Progress::of_capture(path);
    let sample = flood::read::sample(&mut capture, salt, places, |capture| {
        progress.set_read(capture);
    });
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
    let of_lists = databases(&Attachment::open(name).await.map_err(about(name))?);
    let places = places(arguments, of_lists)?;
    let before = refusals(name).await?;
    let (sample, seconds) = live::sample(name, arguments.time, salt, places).await?;
    let refused = refusals(name).await?.wrapping_sub(before);
    if refused > 0 {
        let packets = counted(refused, "packet");
        return unusual(name, &format!("limits refused {packets} meanwhile"));
    }
    let new = Picture::of_sample(salt, &sample, seconds, KEPT_MAX);
    if let Some(old) = &old {
        let most = (SUDDEN * old.limited_per_second).max(QUIET);
        if new.limited_per_second > most {
            let rates = [new.limited_per_second, old.limited_per_second];
            let [now, before] = rates.map(|rate| format!("{rate:.0}"));
            let why = format!("{now} packets per second came, and {before} in the picture");
            return unusual(name, &why);
        }
    }
    let picture = old.map_or_else(|| new.clone(), |old| old.with(&new, MEMORY));
    let (packets, rate) = (picture.shapes.len() as u64, picture.packets_per_second);
    ordinary::write(name, picture)?;
    Ok(print(&format!(
        "{name}: the picture of ordinary traffic has {}, {rate:.0} a second\n",
        counted(packets, "packet")
    ))?)
}

/// Says why the traffic is not ordinary, so that nothing is saved.
fn unusual(name: &str, why: &str) -> anyhow::Result<()> {
    note(&format!(
        "{name}: {why}, so the traffic is not ordinary, and nothing is saved: run it at an ordinary time"
    ));
    exit_with(UNUSUAL);
    Ok(())
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
