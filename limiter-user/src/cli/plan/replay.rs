use std::{
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use limiter_config::{Direction, Mode, Settings};

use crate::{
    cli::shared::{
        ForPrograms, Limiting, Progress, Usage, document,
        file::read,
        input::is_input,
        note, note_capture,
        output::{DROPS, exit_with},
        settings, usage,
    },
    files,
    plan::{
        capture::Capture,
        replay::{self, Compiled, Decided, Outcome, PacketVerdict, Report},
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
    #[command(flatten)]
    programs: ForPrograms,
    /// Also write the verdict on each packet to this new file: one line of JSON per packet
    #[arg(long, value_name = "FILE")]
    verdicts: Option<PathBuf>,
    /// Exit with status 3 if a packet is dropped
    #[arg(long)]
    fail_on_drops: bool,
}

pub fn run(arguments: &Replay) -> anyhow::Result<()> {
    arguments.programs.answer();
    let settings = wanted(arguments)?;
    note_sockets(&settings);
    let compiled = Compiled::new(&settings).map_err(usage)?;
    let mut capture = Capture::open(&arguments.capture)?;
    let verdicts = arguments.verdicts.as_deref().map(Verdicts::create);
    let mut verdicts = verdicts.transpose()?;
    let progress = Progress::of_capture(&arguments.capture);
    let outcome = replay::run(&mut capture, &compiled, |capture, decided| {
        progress.set_read(capture);
        verdicts.as_mut().map_or(Ok(()), |file| file.write(decided))
    });
    drop(progress);
    let outcome = outcome?;
    verdicts.map_or(Ok(()), Verdicts::finish)?;
    note_capture(&capture)?;
    note_packets(&settings, &outcome);
    if arguments.fail_on_drops && outcome.verdicts.dropped.packets > 0 {
        exit_with(DROPS);
    }
    let text = || show::replay::text(&outcome, settings.direction);
    let report = Report::new(&capture, &outcome);
    document(arguments.programs.json, &report, text)
}

/// The settings, from the file, presets or flags.
fn wanted(arguments: &Replay) -> anyhow::Result<Settings> {
    let limiting = &arguments.limiting;
    let flags = &limiting.flags;
    if let Some(path) = &limiting.config {
        if is_input(path) && is_input(&arguments.capture) {
            let why =
                "standard input cannot be both the capture and the configuration: name a file";
            anyhow::bail!(Usage(why.to_owned()));
        }
        let mut settings = read(path)?.settings;
        settings.shadow |= flags.shadow;
        return Ok(settings);
    }
    if let Some(settings) = limiting.of_presets()? {
        return Ok(settings);
    }
    let direction = flags.direction.unwrap_or_default();
    settings(flags, direction, Mode::Auto, None)
}

/// Prints notes about settings that need the host's sockets.
fn note_sockets(settings: &Settings) {
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
}

/// Prints notes about packets of which the capture does not say enough.
fn note_packets(settings: &Settings, outcome: &Outcome) {
    if settings.direction == Direction::Out && outcome.undirected > 0 {
        note(&format!(
            "the capture does not say whether the host sent or received {}; limits apply to them: capture with tcpdump -Q out",
            counted(outcome.undirected, "packet")
        ));
    }
    if outcome.truncated > 0 {
        note(&format!(
            "the capture cut off {}; fields that it lacks are charged as if they matched: capture more bytes of each packet (tcpdump -s)",
            counted(outcome.truncated, "packet")
        ));
    }
}

/// The file with a line for each packet.
struct Verdicts<'a> {
    path: &'a Path,
    file: BufWriter<fs::File>,
}

impl<'a> Verdicts<'a> {
    fn create(path: &'a Path) -> anyhow::Result<Self> {
        let file = files::create(path).map_err(|why| {
            anyhow::anyhow!(
                "{} cannot be created ({why}): name a file that does not exist",
                path.display()
            )
        })?;
        Ok(Self {
            path,
            file: BufWriter::new(file),
        })
    }

    fn write(&mut self, decided: &Decided<'_>) -> anyhow::Result<()> {
        let line = serde_json::to_string(&PacketVerdict::from(decided))?;
        let written = writeln!(self.file, "{line}");
        written.map_err(|why| self.unwritten(&why))
    }

    fn finish(mut self) -> anyhow::Result<()> {
        let written = self.file.flush();
        written.map_err(|why| self.unwritten(&why))
    }

    fn unwritten(&self, why: &std::io::Error) -> anyhow::Error {
        let path = self.path.display();
        anyhow::anyhow!("{path} cannot be written ({why}): name a file elsewhere")
    }
}
