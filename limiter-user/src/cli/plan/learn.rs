//! `limiter learn`.

use std::{
    fs::{self, Permissions},
    io::{self, ErrorKind, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;

use super::replay::note_damage;
use crate::{
    cli::shared::{
        interruption::interruption,
        output::{about, note, print, progress, usage},
        values::{duration, interface},
    },
    config::{Mode, OrNone, Rate},
    kernel::{
        ops::learn::{INTERVAL, Watch},
        program::object::new_seed,
    },
    plan::{
        capture::Capture,
        learn::{Bounds, Proposal, Watched, propose, show},
    },
    show::units::counted,
};

/// Watch traffic, and propose limits as a configuration file
#[derive(Debug, Args)]
pub struct Learn {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface, required_unless_present = "capture", requires = "duration")]
    interface: Option<String>,
    /// Time to watch: 90s, 10m, 1h; Ctrl-C ends it early
    #[arg(long = "for", id = "duration", value_name = "DURATION", value_parser = learn_for)]
    duration: Option<Duration>,
    /// Read a capture (pcap or pcapng) instead of an interface
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interface", "duration", "mode"])]
    capture: Option<PathBuf>,
    /// File for the configuration. Default: standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output")]
    force: bool,
    /// Maximum rate of new sources, also below 10k/s. Default: four times the observed rate, and at least
    /// 10k/s
    #[arg(long, value_name = "RATE|none", allow_hyphen_values = true)]
    new_sources: Option<OrNone<Rate>>,
    /// XDP mode of the watching program
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
}

fn learn_for(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_secs(1)..=Duration::from_secs(7 * 86_400);
    duration(text, bounds, "10m")
}

pub async fn run(arguments: Learn) -> anyhow::Result<()> {
    let output = arguments.output.as_deref();
    let new_sources = arguments.new_sources.map(|rate| rate.with_burst(None));
    if let Some(asked) = new_sources.flatten() {
        asked.quota().map_err(usage)?;
    }
    if let Some(path) = output {
        // A file that cannot be written is an error now, not after ten minutes.
        may_be_written(path, arguments.force)?;
    }
    let interface = arguments.interface.as_deref();
    let watched = match (&arguments.capture, interface, arguments.duration) {
        (Some(capture), ..) => from_capture(capture)?,
        (None, Some(interface), Some(duration)) => {
            watch(interface, arguments.mode, duration).await?
        }
        // clap's parser prevents this.
        _ => anyhow::bail!("nothing to learn from: write an interface and --for, or --capture"),
    };
    let mut proposal = propose(&watched)?;
    if let Some(asked) = new_sources {
        proposal.settings.new_sources = asked;
    }
    let text = show::file(interface, &watched, &proposal)?;
    match output {
        None => print(&text)?,
        Some(path) => write(path, arguments.force, &text)?,
    }
    conclude(&watched, &proposal, &arguments);
    Ok(())
}

fn may_be_written(path: &Path, force: bool) -> anyhow::Result<()> {
    let shown = path.display();
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    if !folder.is_none_or(Path::is_dir) {
        anyhow::bail!("{shown} cannot be written: make its folder first");
    }
    if path.is_dir() {
        anyhow::bail!("{shown} is a folder: write the name of a file");
    }
    if !force && path.symlink_metadata().is_ok() {
        anyhow::bail!("{shown} exists already: write another name, or use --force to overwrite it");
    }
    Ok(())
}

fn write(path: &Path, force: bool, text: &str) -> anyhow::Result<()> {
    write_whole(path, force, text).map_err(|error| {
        let what = if error.kind() == ErrorKind::AlreadyExists {
            "exists meanwhile: --force overwrites it".to_owned()
        } else {
            format!("cannot be written ({error})")
        };
        // The result of learning must not be lost.
        let _ = print(text);
        anyhow::anyhow!(
            "{} {what}; it went to standard output instead",
            path.display()
        )
    })
}

/// Writes the whole file or nothing: if the disk is full, the old content stays.
fn write_whole(path: &Path, force: bool, text: &str) -> io::Result<()> {
    let there = path.metadata().ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        // A pipe or a device has no content that could be lost.
        return fs::write(path, text);
    }
    // A symbolic link stays one.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let permissions = there.map_or(Permissions::from_mode(0o666), |there| there.permissions());
    let mut file = tempfile::Builder::new()
        .permissions(permissions)
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    let persisted = if force {
        file.persist(&path)
    } else {
        file.persist_noclobber(&path)
    };
    Ok(persisted.map(drop)?)
}

/// Reads a whole capture, without the host's own packets as far as the capture marks them.
fn from_capture(path: &Path) -> anyhow::Result<Watched> {
    let mut watched = Watched::new(new_seed()?, Bounds::default());
    let mut capture = Capture::open(path)?;
    let mut outgoing = 0;
    for packet in &mut capture {
        let packet = packet?;
        if packet.outgoing {
            outgoing += 1;
        } else {
            watched.see(packet.time, &packet.frame);
        }
    }
    if outgoing > 0 {
        note(&format!(
            "{}: left out {} that the host itself sent",
            path.display(),
            counted(outgoing, "packet")
        ));
    }
    note_damage(&capture, path);
    Ok(watched)
}

/// Watches an interface until the time is up, or the user interrupts.
async fn watch(name: &str, mode: Mode, duration: Duration) -> anyhow::Result<Watched> {
    let stop = interruption()?;
    let mut watch = Watch::start(name, mode, Bounds::default())
        .await
        .map_err(|error| about(name, error))?;
    let why = watch
        .fallback
        .as_ref()
        .map_or_else(String::new, |why| format!(", NOT native: {why}"));
    note(&format!(
        "{name}: watching in {} mode{why} for {}; nothing is limited, and Ctrl-C ends it early",
        watch.mode.name(),
        humantime::format_duration(duration)
    ));
    let bar = progress(None, "{msg}");
    let (began, mut shown) = (Instant::now(), Instant::now());
    let mut interval = tokio::time::interval(INTERVAL);
    tokio::pin!(stop);
    while began.elapsed() < duration {
        tokio::select! {
            () = &mut stop => break,
            _ = interval.tick() => watch.pump()?,
        }
        if shown.elapsed() >= Duration::from_secs(1) {
            shown = Instant::now();
            if watch.is_off()? {
                bar.finish_and_clear();
                note(&format!(
                    "{name}: the interface is gone, or another process removed the program: using the traffic until then"
                ));
                break;
            }
            let (packets, sources) = watch.progress()?;
            let left = duration.saturating_sub(began.elapsed());
            bar.set_message(format!(
                "{}, {} watched; {} left",
                counted(packets, "IP packet"),
                counted(sources as u64, "source"),
                humantime::format_duration(Duration::from_secs(left.as_secs()))
            ));
        }
    }
    bar.finish_and_clear();
    Ok(watch.finish()?)
}

/// Prints a summary, and the next step.
fn conclude(watched: &Watched, proposal: &Proposal, arguments: &Learn) {
    for line in show::summary(watched, proposal) {
        note(&line);
    }
    let limits = counted(proposal.settings.limits.len() as u64, "limit");
    let or = |path: &Option<PathBuf>, word: &str| {
        let path = path.clone().unwrap_or_else(|| word.into());
        path.display().to_string()
    };
    let file = or(&arguments.output, "FILE");
    let capture = or(&arguments.capture, "CAPTURE");
    let interface = arguments.interface.as_deref().unwrap_or("IFACE");
    note(&format!(
        "{limits} proposed, in shadow: nothing is dropped until the last of these commands:"
    ));
    for command in [
        format!("limiter config check {file}"),
        format!("limiter replay {capture} --config {file}"),
        format!("limiter attach {interface} --config {file}"),
        format!("limiter status {interface}"),
        format!("limiter set {interface} --shadow off"),
    ] {
        note(&format!("  {command}"));
    }
}
