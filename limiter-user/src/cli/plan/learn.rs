use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use limiter_config::{Direction, Mode};
use limiter_kernel::{ops::learn::INTERVAL, probe, program::object::new_seed, sys::XdpMode};

use crate::{
    cli::shared::{
        DAY, ForPrograms, Progress, SECOND, about, as_json, document, duration, interface,
        interruption, note, note_capture,
    },
    observe::settings::ProposedFile,
    plan::{
        capture::Capture,
        learn::{Watched, propose, show, watch},
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
    #[arg(long = "for", id = "duration", value_name = "DURATION", value_parser = duration(SECOND..=7 * DAY, "10m"))]
    duration: Option<Duration>,
    /// Read a capture (pcap or pcapng) instead of an interface
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interface", "duration", "mode"])]
    capture: Option<PathBuf>,
    /// XDP mode of the watching program
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Learn) -> anyhow::Result<()> {
    arguments.programs.answer();
    let interface = arguments.interface.as_deref();
    let watched = match (&arguments.capture, interface, arguments.duration) {
        (Some(capture), ..) => from_capture(capture)?,
        (None, Some(interface), Some(duration)) => {
            watch(interface, arguments.mode, duration).await?
        }
        // clap's parser prevents this.
        _ => anyhow::bail!("nothing to learn from: write an interface and --for, or --capture"),
    };
    let proposal = propose(&watched)?;
    let file = show::file(interface, &watched, &proposal);
    let proposed = ProposedFile {
        interface: interface.map(str::to_owned),
        settings: as_json(&file)?,
        file,
    };
    if arguments.capture.is_some() {
        note(
            "a capture does not show the host's sockets: TCP segments of a flow are left out from the second on, as of the host's own connections; for forwarded traffic, watch the interface",
        );
    }
    document(arguments.programs.json, &proposed, || proposed.file.clone())?;
    note(&format!(
        "limits are proposed, in shadow; next: `limiter attach {} --config FILE`, `limiter status`, `limiter set --shadow off`",
        interface.unwrap_or("IFACE")
    ));
    Ok(())
}

/// Reads a whole capture, without the host's own packets as far as the capture marks them.
fn from_capture(path: &Path) -> anyhow::Result<Watched> {
    let mut watched = Watched::of_capture(new_seed()?);
    let mut capture = Capture::open(path)?;
    let mut outgoing = 0;
    let progress = Progress::of_capture(path);
    while let Some(packet) = capture.next() {
        progress.set_read(&capture);
        if packet.is_seen(Direction::In) {
            watched.see(packet.time, &packet.frame);
        } else {
            outgoing += 1;
        }
    }
    drop(progress);
    if outgoing > 0 {
        let (path, packets) = (path.display(), counted(outgoing, "packet"));
        let text = format!("{path}: left out {packets} that the host itself sent");
        note(&text);
    }
    note_capture(&capture)?;
    Ok(watched)
}

/// Watches an interface until the time is up, or the user interrupts.
async fn watch(name: &str, mode: Mode, duration: Duration) -> anyhow::Result<Watched> {
    let stop = interruption()?;
    let mut watch = watch::start(name, mode).await.map_err(about(name))?;
    let why = (watch.fallback.as_ref()).map(|why| format!(" ({why})"));
    let why = why.unwrap_or_default();
    note(&format!(
        "{name}: watching for {} in {} mode{why}; nothing is limited, and Ctrl-C ends it early",
        humantime::format_duration(duration),
        watch.mode.name(),
    ));
    let merges = watch.interface.veth || probe::gro(name) != Some(false);
    if watch.mode == XdpMode::Generic && merges {
        note(&format!(
            "{name}: packets that offload has merged count once here: a source that sends many of them, as QUIC does, may get a lower rate than it needs"
        ));
    }
    let began = Instant::now();
    let progress = Progress::of_time(duration.as_secs());
    let mut interval = tokio::time::interval(INTERVAL);
    tokio::pin!(stop);
    while began.elapsed() < duration {
        tokio::select! {
            () = &mut stop => break,
            _ = interval.tick() => watch.pump()?,
        }
        let text = format!(
            "{}, {}",
            counted(watch.seen()?.packets, "packet"),
            counted(watch.kept.sources.len() as u64, "source")
        );
        progress.set(began.elapsed().as_secs(), text);
        if watch.is_off()? {
            note(&format!(
                "{name}: the interface is gone, or another process removed the program: using the traffic until then"
            ));
            break;
        }
    }
    Ok(watch.finish()?.into())
}
