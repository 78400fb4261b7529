//! `limiter replay`.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use clap::Args;
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

/// Show the effect of limits on the packets of a capture
#[derive(Debug, Args)]
pub struct Replay {
    /// A pcap or pcapng file; - for standard input
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    #[command(flatten)]
    limiting: Limiting,
    /// Program in the kernel, or a model of it. Default: the kernel if possible
    #[arg(long, value_enum)]
    engine: Option<Choice>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    /// File for the verdict on each packet: number, pass or drop, and reason, separated by tabs; - for
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
            "--json and --verdicts - both need standard output: write the verdicts to a file"
                .to_owned(),
        )
        .into());
    }
    let settings = match &arguments.limiting.config {
        Some(path) => read(path, &Frames::default())?.1.settings,
        None => settings(&arguments.limiting, Mode::Auto, None)?,
    };
    if settings.exempt.established {
        note(
            "a capture does not show the host's sockets: established connections are not exempt here",
        );
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
        bar: bar(&arguments.capture),
    };
    let choice = arguments.engine.unwrap_or(Choice::Any);
    let outcome = replay::run(&mut capture, &compiled, choice, &mut watcher);
    watcher.bar.finish_and_clear();
    let replay = outcome.map_err(as_written)?;
    if let Some(verdicts) = &mut watcher.verdicts {
        verdicts.write(|out| out.flush())?;
    }
    note_surprises(&capture, arguments, &replay);
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

/// Prints a note if a capture ends too early, and one if its clock was set back.
pub(super) fn note_damage(capture: &Capture, path: &Path) {
    let name = path.display();
    if let Some(cut) = capture.cut() {
        let how = match cut {
            Cut::Short => "cut off",
            Cut::Damaged => "damaged",
        };
        let packets = capture.packets();
        note(&format!(
            "{name} is {how} after packet {packets}: the results cover the packets before that"
        ));
    }
    if capture.set_back() > 0 {
        note(&format!(
            "{name}: the clock was set back {} times: time continues from there",
            capture.set_back()
        ));
    }
}

fn note_surprises(capture: &Capture, arguments: &Replay, replay: &observe::replay::Replay) {
    note_damage(capture, &arguments.capture);
    if replay.cut_short_packets > 0 {
        note(&format!(
            "{} were truncated in the capture, and charged as if the missing fields matched: capture more bytes of each packet (tcpdump -s)",
            show::units::counted(replay.cut_short_packets, "packet")
        ));
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
    bar: ProgressBar,
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
        const EVERY: u64 = 8_192;
        let packets = capture.packets();
        if packets.is_multiple_of(EVERY) {
            self.bar.set_position(capture.bytes());
            self.bar
                .set_message(show::units::counted(packets, "packet"));
        }
    }

    fn tell(&mut self, text: &str) {
        note(text);
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
