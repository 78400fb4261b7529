//! `limiter replay`.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use limiter_common::policy::verdict::Reason;

use crate::{
    cli::shared::{
        file::{Frames, read},
        limiting::{Limiting, settings},
        output::{Usage, note, print, print_json, progress, unwritten, usage},
    },
    config::Mode,
    observe,
    plan::{
        capture::{Capture, Cut},
        replay::{self, Choice, Compiled, Error, Watcher},
    },
    show,
};

/// The name for standard input or output instead of a file.
const STANDARD: &str = "-";

/// The engine that decides in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// The program, in the kernel.
    Kernel,
    /// The same arithmetic in this process: needs no privileges.
    Model,
}

/// Show what limits would have done with a capture
#[derive(Debug, Args)]
pub struct Replay {
    /// A file of pcap or pcapng; - for standard input
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    #[command(flatten)]
    limiting: Limiting,
    /// Engine that decides; without it, the kernel if possible
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// For programs
    #[arg(long)]
    json: bool,
    /// Write what becomes of each packet: number, pass or drop, and why, with tabs between; - for
    /// standard output
    #[arg(long, value_name = "OUT")]
    verdicts: Option<PathBuf>,
}

pub fn run(arguments: &Replay) -> anyhow::Result<()> {
    let to_stdout = arguments
        .verdicts
        .as_ref()
        .is_some_and(|path| path.as_os_str() == STANDARD);
    if arguments.json && to_stdout {
        return Err(Usage(
            "--json and --verdicts - both want standard output: write the verdicts to a file"
                .to_owned(),
        )
        .into());
    }
    let settings = match &arguments.limiting.config {
        Some(path) => read(path, &Frames::default())?.1.settings,
        None => settings(&arguments.limiting, Mode::Auto, None)?,
    };
    if settings.exempt.established {
        note("a capture does not tell which sockets the host had: established is not exempt here");
    }
    let compiled = Compiled::new(&settings).map_err(usage)?;
    let mut capture = Capture::open(&arguments.capture)?;
    if let Some(out) = &arguments.verdicts {
        refuse_the_capture_itself(&arguments.capture, out)?;
    }
    let mut watcher = Shown {
        verdicts: arguments
            .verdicts
            .as_deref()
            .map(Verdicts::create)
            .transpose()?,
        progress: Progress::new(&arguments.capture),
    };
    let choice = match arguments.engine {
        None => Choice::Any,
        Some(Engine::Kernel) => Choice::Kernel,
        Some(Engine::Model) => Choice::Model,
    };
    let outcome = replay::run(&mut capture, &compiled, choice, &mut watcher);
    watcher.progress.end();
    let replay = outcome.map_err(as_written)?;
    if let Some(verdicts) = &mut watcher.verdicts {
        verdicts.write(|out| out.flush())?;
    }
    tell_of(&capture, arguments, &replay);
    match (arguments.json, to_stdout) {
        (true, _) => print_json(&replay),
        (false, false) => Ok(print(&show::replay::text(&replay))?),
        // Standard output has the verdicts.
        (false, true) => Ok(io::stderr().write_all(show::replay::text(&replay).as_bytes())?),
    }
}

/// Keeps the error of a closed pipe as an I/O error, which is no failure.
fn as_written(error: Error) -> anyhow::Error {
    match error {
        Error::Written(error) => error.into(),
        error => error.into(),
    }
}

/// Prints notes about surprising results.
fn tell_of(capture: &Capture, arguments: &Replay, replay: &observe::replay::Replay) {
    let name = arguments.capture.display();
    let packets = capture.packets();
    match capture.cut() {
        None => {}
        Some(Cut::Short) => note(&format!(
            "{name} is cut off after packet {packets}: this is of those that are there"
        )),
        Some(Cut::Damaged) => note(&format!(
            "{name} is damaged after packet {packets}: this is of those before that"
        )),
    }
    if replay.cut_short_packets > 0 {
        note(&format!(
            "{} were captured too short for the limits, which charge what is missing as if it matched: capture more of each (tcpdump -s)",
            show::units::counted(replay.cut_short_packets, "packet")
        ));
    }
    if replay.clock_set_back > 0 {
        note("the clock was set back in this capture: time went on from there");
    }
}

/// Refuses to overwrite the capture with the verdicts.
fn refuse_the_capture_itself(capture: &Path, out: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let of = |path: &Path| -> Option<(u64, u64)> {
        let metadata = if path.as_os_str() == STANDARD {
            File::from(io::stdin().as_fd().try_clone_to_owned().ok()?).metadata()
        } else {
            fs::metadata(path)
        };
        let metadata = metadata.ok().filter(fs::Metadata::is_file)?;
        Some((metadata.dev(), metadata.ino()))
    };
    if out.as_os_str() == STANDARD {
        return Ok(());
    }
    match (of(capture), of(out)) {
        (Some(one), Some(other)) if one == other => Err(anyhow::anyhow!(
            "{} is the capture itself, which the verdicts would overwrite: write them to another file",
            out.display()
        )),
        _ => Ok(()),
    }
}

/// The output of verdicts.
struct Verdicts {
    /// The output's name in messages.
    name: String,
    out: Box<dyn Write>,
}

impl Verdicts {
    fn create(path: &Path) -> io::Result<Self> {
        const BUFFER: usize = 1 << 16;
        if path.as_os_str() == STANDARD {
            return Ok(Self {
                name: "standard output".to_owned(),
                out: Box::new(BufWriter::with_capacity(BUFFER, io::stdout())),
            });
        }
        let name = path.display().to_string();
        let file = File::create(path).map_err(|error| unwritten(&name, error))?;
        Ok(Self {
            name,
            out: Box::new(BufWriter::with_capacity(BUFFER, file)),
        })
    }

    fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        write(&mut self.out).map_err(|error| unwritten(&self.name, error))
    }
}

struct Shown {
    verdicts: Option<Verdicts>,
    progress: Progress,
}

impl Watcher for Shown {
    fn verdict(&mut self, number: u64, reason: Option<Reason>) -> io::Result<()> {
        let Some(verdicts) = &mut self.verdicts else {
            return Ok(());
        };
        let what = if reason.is_none_or(Reason::passes) {
            "pass"
        } else {
            "drop"
        };
        let why = reason.map_or("outgoing", Reason::name);
        verdicts.write(|out| writeln!(out, "{number}\t{what}\t{why}"))
    }

    fn progress(&mut self, capture: &Capture) {
        self.progress.show(capture);
    }

    fn tell(&mut self, text: &str) {
        note(text);
    }
}

/// Progress on a terminal, shown if the replay takes longer than a second.
struct Progress {
    /// Bytes of the capture, if it is a file.
    length: Option<u64>,
    begun: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Packets between two looks at the clock.
    const EVERY: u64 = 8_192;

    fn new(capture: &Path) -> Self {
        let metadata = fs::metadata(capture).ok().filter(fs::Metadata::is_file);
        Self {
            length: metadata.map(|metadata| metadata.len()),
            begun: Instant::now(),
            bar: None,
        }
    }

    fn show(&mut self, capture: &Capture) {
        let packets = capture.packets();
        let is_time =
            packets.is_multiple_of(Self::EVERY) && self.begun.elapsed() > Duration::from_secs(1);
        if !is_time {
            return;
        }
        let length = self.length;
        let bar = self.bar.get_or_insert_with(|| match length {
            Some(_) => progress(length, "{percent} % {wide_bar} {msg}, {eta} left"),
            None => progress(None, "{spinner} {msg}"),
        });
        bar.set_position(capture.bytes());
        bar.set_message(show::units::counted(packets, "packet"));
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
