use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use indicatif::ProgressBar;
use limiter_common::policy::verdict::Reason;

use crate::{
    cli::shared::{Limiting, file::read, note, print, progress, settings, unwritten, usage},
    config::Mode,
    plan::{
        capture::Capture,
        replay::{self, Compiled},
    },
    show,
    show::units::counted,
};

/// Show the effect of limits on the packets of a capture
#[derive(Debug, Args)]
pub struct Replay {
    /// A pcap or pcapng file; - for standard input
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    #[command(flatten)]
    limiting: Limiting,
    /// Print the verdict on each packet: number, pass or drop, and reason, separated by tabs. The summary goes to
    /// standard error
    #[arg(long)]
    verdicts: bool,
}

pub fn run(arguments: &Replay) -> anyhow::Result<()> {
    let settings = match &arguments.limiting.config {
        Some(path) => read(path)?.settings,
        None => {
            let direction = arguments.limiting.direction.unwrap_or_default();
            settings(&arguments.limiting, direction, Mode::Auto, None)?
        }
    };
    if settings.exempt.established {
        note(
            "a capture does not show the host's sockets: established connections are not exempt here",
        );
    }
    let compiled = Compiled::new(&settings).map_err(usage)?;
    let mut capture = Capture::open(&arguments.capture)?;
    let bar = bar(&arguments.capture);
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
    let each = |capture: &Capture, number, reason| {
        show_progress(&bar, capture);
        if arguments.verdicts {
            let written = write_verdict(&mut out, number, reason);
            written.map_err(|error| unwritten("standard output", error))?;
        }
        Ok(())
    };
    let replay = replay::run(&mut capture, &compiled, each);
    bar.finish_and_clear();
    let replay = replay?;
    note_damage(&capture, &arguments.capture);
    if replay.cut_short > 0 {
        note(&format!(
            "{} were truncated in the capture, and charged as if the missing fields matched: capture more bytes of each packet (tcpdump -s)",
            counted(replay.cut_short, "packet")
        ));
    }
    let text = show::replay::text(&replay);
    if arguments.verdicts {
        out.flush()
            .map_err(|error| unwritten("standard output", error))?;
        return Ok(io::stderr().write_all(text.as_bytes())?);
    }
    Ok(print(&text)?)
}

/// Prints a note if a capture ends too early.
pub(super) fn note_damage(capture: &Capture, path: &Path) {
    let name = path.display();
    if let Some(how) = capture.cut {
        let packets = capture.packets;
        note(&format!(
            "{name} is {how} after packet {packets}: the results cover the packets before that"
        ));
    }
}

fn write_verdict(out: &mut impl Write, number: u64, reason: Option<Reason>) -> io::Result<()> {
    let passes = reason.is_none_or(Reason::passes);
    let verdict = if passes { "pass" } else { "drop" };
    let why = reason.map_or("outgoing", Reason::name);
    writeln!(out, "{number}\t{verdict}\t{why}")
}

fn show_progress(bar: &ProgressBar, capture: &Capture) {
    const EVERY: u64 = 8_192;
    let packets = capture.packets;
    if packets.is_multiple_of(EVERY) {
        bar.set_position(capture.bytes());
        bar.set_message(counted(packets, "packet"));
    }
}

/// Progress on a terminal: the share of a file, or a number of packets.
fn bar(capture: &Path) -> ProgressBar {
    let metadata = fs::metadata(capture).ok().filter(fs::Metadata::is_file);
    match metadata.map(|metadata| metadata.len()) {
        None => progress(None, "{spinner} {msg}"),
        length => progress(length, "{percent} % {wide_bar} {msg}, {eta} left"),
    }
}
