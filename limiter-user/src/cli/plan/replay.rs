use std::path::{Path, PathBuf};

use clap::Args;
use limiter_config::Mode;

use crate::{
    cli::shared::{Limiting, file::read, note, print, settings, usage},
    plan::{
        capture::Capture,
        replay::{self, Compiled},
    },
    show::{self, units::counted},
};

/// Show the effect of limits on the packets of a capture
#[derive(Debug, Args)]
pub struct Replay {
    /// A pcap or pcapng file; - for standard input
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    #[command(flatten)]
    limiting: Limiting,
}

pub fn run(arguments: &Replay) -> anyhow::Result<()> {
    let settings = match &arguments.limiting.config {
        Some(path) => read(path)?.settings,
        None => {
            let flags = &arguments.limiting.flags;
            let direction = flags.direction.unwrap_or_default();
            settings(flags, direction, Mode::Auto, None)?
        }
    };
    if settings.exempt.established {
        note(
            "a capture does not show the host's sockets: established connections are not exempt here",
        );
    }
    let mut limits = settings.limits.iter();
    if let Some(limit) = limits.find(|limit| limit.matches.established == Some(true)) {
        note(&format!(
            "a capture does not show the host's sockets: no packet with ports matches established = true here, as in limit '{}'",
            limit.name
        ));
    }
    let compiled = Compiled::new(&settings).map_err(usage)?;
    let mut capture = Capture::open(&arguments.capture)?;
    let replay = replay::run(&mut capture, &compiled)?;
    note_damage(&capture, &arguments.capture);
    if replay.truncated > 0 {
        note(&format!(
            "{} were truncated in the capture; fields that it lacks are charged as if they matched: capture more bytes of each packet (tcpdump -s)",
            counted(replay.truncated, "packet")
        ));
    }
    Ok(print(&show::replay::text(&replay))?)
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
