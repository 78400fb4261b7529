use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use limiter_common::policy::verdict::Reason;

use crate::{
    cli::shared::{Limiting, file::read, note, print, settings, unwritten, usage},
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
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
    let each = |number, reason| {
        if arguments.verdicts {
            let written = write_verdict(&mut out, number, reason);
            written.map_err(|error| unwritten("standard output", error))?;
        }
        Ok(())
    };
    let replay = replay::run(&mut capture, &compiled, each)?;
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
