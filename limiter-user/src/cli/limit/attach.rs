//! `limiter attach`.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use clap::Args;
use limiter_config::{
    Direction, Mode, Settings,
    difference::difference,
    ineffective::USUAL_FRAME,
    names::{self, OUT, direction_of},
    reader::Setting,
};
use limiter_kernel::{
    Attachment, Error,
    ops::{
        attach::attach,
        detach::clear_ended,
        replace::replace,
        set::{Lasts, Wanted},
        trial,
    },
    probe,
    sys::{XdpMode, bpf::Place, requirements},
};
use tokio::time::sleep;

use super::{
    fall_back::instead,
    keep::record_end,
    reload::{allow_in, put_in_force},
    together::{Effect, in_order, undo},
};
use crate::{
    cli::shared::{
        DAY, Extent, ForPrograms, Limiting, MINUTE, SECOND, Usage, about,
        at_once::at_once,
        duration, gathered,
        input::shown as shown_path,
        interface, is_interface, keep_last, note, outcome,
        output::{attached as report_attached, note_error},
        read_for, record, record_until, settings, ssh, terminal_width, unique, warn_of_attached,
    },
    kept,
    observe::collect,
    plan::doctor::{self, forwarded, forwarding, proof, vlan},
    show::{self, page::Page},
};

/// The time for which `attach` waits for the fleet's agent. It limits without an agent too.
const AGENT: Duration = Duration::from_millis(200);

/// Limit incoming packets of an interface, until `detach`
///
/// The program stays in the kernel; no process has to run.
#[derive(Debug, Args)]
pub struct Attach {
    /// The interfaces, separated by spaces or commas. If one fails, none is attached
    #[arg(value_name = "IFACE", required_unless_present = "config", value_delimiter = ',', value_parser = interface)]
    interfaces: Vec<String>,
    #[command(flatten)]
    limiting: Limiting,
    /// The program's hook and mode; auto: XDP in the driver (native), or in the network stack if the driver has none
    /// (generic), or tc where XDP does not work. Default: auto, or the mode of the file
    #[arg(long, visible_alias = "hook", value_enum, value_name = "MODE")]
    mode: Option<Mode>,
    /// Mode tc: in front of the program with this id, instead of in front of all
    #[arg(long, value_name = "ID", conflicts_with_all = ["after", "chain"])]
    before: Option<u32>,
    /// Mode tc: behind the program with this id
    #[arg(long, value_name = "ID", conflicts_with = "chain")]
    after: Option<u32>,
    /// Name of a fleet; the limit is shared by all its hosts
    #[arg(long, value_name = "NAME", value_parser = names::fleet, conflicts_with_all = ["config", "preset"])]
    fleet: Option<String>,
    /// Keep the bans of `limiter ban` over detach, another version of limiter and a restart of the host, in a file below
    /// /var/lib/limiter. Bans of feeds, fail2ban and a fleet are not kept: these make them again
    #[arg(long, conflicts_with = "config")]
    keep_bans: bool,
    /// Let all packets pass again after this time unless `limiter keep` runs before: 1s to 1day, as in 90s or 10m
    #[arg(long = "try", value_name = "DURATION", value_parser = duration(SECOND..=DAY, "90s"), allow_hyphen_values = true)]
    try_for: Option<Duration>,
    /// Attach in front of an existing XDP program. It gets the packets that pass; detach puts it back
    #[arg(long)]
    chain: bool,
    /// If limiter is attached already, apply this configuration there, as `reload` does
    #[arg(long, conflicts_with_all = ["try_for", "chain"])]
    or_reload: bool,
    /// For a start: if the file cannot be applied and limiter is not attached, apply the last configuration that was in
    /// force, with its lists. The exit status is then 4
    #[arg(long, requires = "config", requires = "interfaces", conflicts_with_all = ["try_for", "chain"])]
    or_last: bool,
    /// Wait for interfaces that come late, at most for this time: 1s to 10m, as in 30s
    #[arg(long, value_name = "DURATION", value_parser = duration(SECOND..=10 * MINUTE, "30s"))]
    wait: Option<Duration>,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Attach) -> anyhow::Result<()> {
    arguments.programs.changes();
    if let Some(time) = arguments.wait {
        appeared(&arguments.interfaces, time).await;
    }
    let applied = apply(&arguments).await;
    let path = arguments.limiting.config.as_deref();
    let (Err(why), Some(path), true) = (&applied, path, arguments.or_last) else {
        return applied;
    };
    for (interface, wanted) in instead(&arguments.interfaces, path, why).await? {
        put_on(&interface, &wanted, &arguments).await?;
        record(&interface, "fall-back", &[path.display().to_string()]);
        show_attached(&interface, &wanted, false).await;
    }
    Ok(())
}

/// Waits until interfaces exist. `attach` reports those that do not.
async fn appeared(interfaces: &[String], time: Duration) {
    let end = Instant::now() + time;
    while !interfaces.iter().all(|name| is_interface(name)) && Instant::now() < end {
        sleep(Duration::from_millis(200)).await;
    }
}

async fn apply(arguments: &Attach) -> anyhow::Result<()> {
    let (interfaces, wanted) = wanted(arguments).await?;
    if arguments.chain && wanted.settings.direction == Direction::Out {
        let why =
            "--chain is for XDP programs, and XDP sees no outgoing packets: leave --chain out";
        anyhow::bail!(Usage(why.to_owned()));
    }
    let before = arguments.before.map(Place::Before);
    let wanted = Wanted {
        chain: arguments.chain,
        place: before.or(arguments.after.map(Place::After)),
        trial: arguments.try_for,
        ..wanted
    };
    let interfaces = unique(&interfaces);
    let groups = match arguments.or_reload {
        true => in_order(&interfaces, &wanted).await?,
        false => vec![interfaces],
    };
    let mut done = Vec::new();
    for group in groups {
        let put_on = async |interface: &str| put_on(interface, &wanted, arguments).await;
        let results = at_once(&group, put_on).await;
        let mut failed = None;
        for (interface, result) in group.into_iter().zip(results) {
            match result {
                Ok(effect) => done.push((interface, effect)),
                Err(error) => {
                    if let Some(earlier) = failed.replace(error) {
                        note_error(&earlier);
                    }
                }
            }
        }
        if let Some(error) = failed {
            undo(&done, &wanted).await;
            gathered::forget_results();
            return Err(error);
        }
    }
    let mut attached = done
        .iter()
        .filter(|(_, effect)| matches!(effect, Effect::Attached))
        .peekable();
    if attached.peek().is_some()
        && let Some(untested) = requirements::untested()
    {
        note(&untested);
    }
    if wanted.settings.direction == Direction::Out
        && let Some(mixed) = requirements::may_mix_up()
    {
        note(mixed);
    }
    for (interface, _) in attached {
        let is_typed = arguments.limiting.flags.rate.is_some();
        show_attached(interface, &wanted, is_typed).await;
    }
    Ok(())
}

/// Prints the state of a new attachment, and keeps what later commands ask for.
async fn show_attached(interface: &str, wanted: &Wanted, is_typed: bool) {
    let attachment = Attachment::open(interface).await.ok();
    let trial = attachment.as_ref().and_then(Attachment::try_until);
    record_attach(interface, wanted, trial);
    if wanted.trial.is_none()
        && wanted.instead.is_none()
        && let Some(attachment) = &attachment
    {
        keep_last(interface, &attachment.record, &wanted.settings);
    }
    drop(attachment);
    match shown(interface, is_typed).await {
        Ok(()) => {}
        // The attach has succeeded, so this is no error.
        Err(error) => note(&format!(
            "{interface}: attached, but its state cannot be read: {error}"
        )),
    }
}

/// Writes an entry for the history. `until`: the end of a trial.
fn record_attach(interface: &str, wanted: &Wanted, until: Option<&str>) {
    let mut details: Vec<_> = wanted
        .file
        .iter()
        .map(|file| format!("file {}", file.display()))
        .collect();
    let trial = wanted.trial.map(humantime::format_duration);
    details.extend(trial.map(|time| format!("on trial for {time}")));
    details.extend(difference(
        &Settings::default(),
        &wanted.settings,
        USUAL_FRAME,
    ));
    record_until(interface, "attach", &details, until);
}

/// Prints an attachment that was made. `is_typed`: its limit was typed as options.
async fn shown(interface: &str, is_typed: bool) -> Result<(), Error> {
    let attachment = Attachment::open(interface).await?;
    let settings = &attachment.record.settings;
    warn_of_attached(interface, settings, attachment.record.frame_max, is_typed);
    let unanswered = attachment.unanswered();
    if let Some(finding) = proof(settings, requirements::has_syn_cookies(), None, &unanswered)
        && let Some(advice) = finding.advice
    {
        note(&format!("{interface}: {}: {advice}", finding.found));
    }
    warn_of_hidden(interface, &attachment).await;
    let shown = collect::interface(&attachment, AGENT).await?;
    let width = terminal_width();
    let mut page = Page::new(width);
    let own_traffic = doctor::note(settings);
    if let Some(note) = &own_traffic {
        page.line("note", note);
    }
    page.line("undo", &format!("limiter detach {interface}"));
    let text = show::status::interface(&shown, width) + &page.finish();
    report_attached(shown, &text, &own_traffic.unwrap_or_default());
    Ok(())
}

/// Warns of packets that the limits see as something else: of forwarded connections, and of VLANs.
async fn warn_of_hidden(interface: &str, attachment: &Attachment) {
    let Ok(device) = probe::device(interface).await else {
        return;
    };
    let settings = &attachment.record.settings;
    let mode = match attachment.mode {
        XdpMode::Tc => doctor::Mode::Tc,
        _ => doctor::Mode::Native,
    };
    let found = [
        forwarding(settings, &device),
        forwarded(settings, &device),
        vlan(settings, &device, mode),
    ];
    for finding in found.into_iter().flatten() {
        if let Some(advice) = finding.advice {
            note(&format!("{interface}: {}: {advice}", finding.found));
        }
    }
}

/// Returns true if this is what was asked for, and for good.
fn is_so(attachment: &Attachment, wanted: &Wanted, arguments: &Attach) -> bool {
    arguments.try_for.is_none()
        && attachment.try_until().is_none()
        && attachment.record.chained == arguments.chain
        && attachment
            .own_settings()
            .is_ok_and(|settings| settings == wanted.settings)
}

/// Presets for an attachment that is there keep its table: nobody has asked for another size.
fn within_table(
    interface: &str,
    wanted: &Wanted,
    attachment: &Attachment,
    arguments: &Attach,
) -> Wanted {
    let mut wanted = wanted.clone();
    let there = attachment.record.settings.max_sources;
    if !arguments.limiting.presets.is_empty() && wanted.settings.max_sources != there {
        note(&format!(
            "{interface}: the table keeps its room for {there} sources, and the presets want {}: `limiter detach {interface}`, then attach, gives it",
            wanted.settings.max_sources
        ));
        wanted.settings.max_sources = there;
    }
    wanted
}

/// Attaches to one interface, or takes over the attachment that is there already. Begins again if another command has
/// attached or detached meanwhile.
async fn put_on(interface: &str, wanted: &Wanted, arguments: &Attach) -> anyhow::Result<Effect> {
    const TRIES: usize = 10;
    let advice = |client| how_to_stay(arguments, client);
    for _ in 0..TRIES {
        let attached = Attachment::open(interface).await;
        match (attached, arguments.or_reload) {
            (Ok(attachment), true) => {
                let on_trial = attachment.try_until().is_some();
                let wanted = &within_table(interface, wanted, &attachment, arguments);
                let before = Wanted::own(&attachment.record, &attachment.own_settings()?);
                put_in_force(interface, wanted.clone(), Lasts::ForGood, advice).await?;
                let ended = trial::end(interface, false).await.inspect_err(|_| {
                    note(&format!("{interface}: the new settings are in force"));
                })?;
                record_end(interface, ended).await;
                return Ok(match on_trial {
                    true => Effect::Final,
                    false if before.settings == wanted.settings => Effect::Unchanged,
                    false => Effect::Reloaded(Box::new(before)),
                });
            }
            (Ok(attachment), false) if is_so(&attachment, wanted, arguments) => {
                let text = "unchanged: already attached with this configuration";
                outcome(interface, Extent::Nothing, text);
                return Ok(Effect::Unchanged);
            }
            (Err(Error::OtherVersion(..)), true) => {
                let (wanted, kept) = with_kept(interface, wanted);
                let replaced = replace(interface, &wanted).await;
                if let Some(layout) = replaced.map_err(about(interface))? {
                    kept.iter().for_each(|text| note(text));
                    record_attach(interface, &wanted, None);
                    let text = format!(
                        "replaced another version of limiter (layout {layout}) without a gap; all buckets start full, all counters at 0"
                    );
                    outcome(interface, Extent::All, &text);
                    return Ok(Effect::Final);
                }
            }
            // A trial that is over leaves a program that passes all packets. With `--or-reload`, an interface that is
            // gone, or that limiter was taken off by force, is no obstacle either.
            (Err(Error::TrialOver(..)), _) | (Err(Error::TakenOff(_)), true) => {
                clear_ended(interface).await?;
            }
            // `attach` reports any other trouble.
            (other, _) => {
                ssh::warn(interface, None, &wanted.settings, advice);
                let (wanted, kept) = with_kept(interface, wanted);
                match attach(interface, &wanted).await {
                    Err(Error::AlreadyAttached(_)) if arguments.or_reload => {}
                    attached => {
                        attached.map_err(about(interface))?;
                        // In mode tc, the kernel takes both.
                        if let Err(Error::PinnedElsewhere(_, id)) = other {
                            note(&format!(
                                "WARNING: {interface}: another limiter (program {id}) works there, and packets meet the limits of both: `limiter doctor {interface}` says where its pins may be"
                            ));
                        }
                        kept.iter().for_each(|text| note(text));
                        return Ok(Effect::Attached);
                    }
                }
            }
        }
    }
    anyhow::bail!(
        "{interface}: other limiter commands attach and detach all the time: wait until they end, and try again"
    )
}

/// The wanted state with the kept bans of an interface, and a line about them.
fn with_kept(interface: &str, wanted: &Wanted) -> (Wanted, Option<String>) {
    let mut wanted = wanted.clone();
    let text = match kept::read(interface) {
        Ok(None) => None,
        Ok(Some(mut found)) => {
            let text = found.for_attach(&wanted.settings);
            wanted.bans = found.bans;
            text
        }
        Err(error) if wanted.settings.keep_bans => Some(format!(
            "WARNING: bans from before are not in force, and the next `limiter ban` replaces their file: {error:#}"
        )),
        Err(_) => None,
    };
    (wanted, text.map(|text| format!("{interface}: {text}")))
}

/// Advice for a user who works from `client` to keep the session.
fn how_to_stay(arguments: &Attach, client: IpAddr) -> String {
    let allow = match &arguments.limiting.config {
        None => format!("--allow {client} lets it pass"),
        Some(path) => allow_in(path, client),
    };
    if arguments.try_for.is_some() {
        allow
    } else {
        format!("{allow}, or use --try 2m, which undoes the change after two minutes")
    }
}

/// The interfaces and settings, from the file or from the flags.
async fn wanted(arguments: &Attach) -> anyhow::Result<(Vec<String>, Wanted)> {
    let (limiting, mut interfaces) = (&arguments.limiting, arguments.interfaces.clone());
    let (wanted, advice) = if let Some(path) = &limiting.config {
        let (in_file, mut wanted) = read_for(&interfaces, path).await?;
        override_file(arguments, &mut wanted);
        if interfaces.is_empty() {
            interfaces = in_file;
        }
        let path = shown_path(path);
        if interfaces.is_empty() {
            anyhow::bail!(Usage(format!(
                "{path} names no interfaces: write them on the command line, or as interfaces = [...] in the file"
            )));
        }
        (wanted, format!("write direction = \"out\" in {path}"))
    } else if let Some(settings) = limiting.of_presets()? {
        let settings = Settings {
            keep_bans: arguments.keep_bans,
            mode: arguments.mode.unwrap_or_default(),
            ..settings
        };
        let wanted = Wanted {
            settings,
            ..Wanted::default()
        };
        (wanted, "presets limit packets that arrive".to_owned())
    } else {
        let outward = |name: &String| direction_of(name).1 == Direction::Out;
        let by_name = match interfaces.iter().all(outward) {
            true => Direction::Out,
            false => Direction::In,
        };
        let flags = &limiting.flags;
        let direction = flags.direction.unwrap_or(by_name);
        let fleet = arguments.fleet.as_deref();
        let settings = Settings {
            keep_bans: arguments.keep_bans,
            ..settings(flags, direction, arguments.mode.unwrap_or_default(), fleet)?
        };
        let wanted = Wanted {
            settings,
            ..Wanted::default()
        };
        (wanted, "use one direction in one command".to_owned())
    };
    let interfaces = directed(&interfaces, wanted.settings.direction, &advice)?;
    Ok((interfaces, wanted))
}

/// Applies `--shadow` and `--mode` to the settings of a file, and notes that the file says something else.
fn override_file(arguments: &Attach, wanted: &mut Wanted) {
    let (settings, file) = (&mut wanted.settings, &wanted.file);
    let note_in_file = |text: &str| {
        if let Some(file) = file {
            note(&format!("{}: {text}", file.display()));
        }
    };
    if arguments.limiting.flags.shadow && !settings.shadow {
        settings.shadow = true;
        note_in_file("--shadow is not in the file: `limiter reload` ends the shadow");
    }
    if let Some(mode) = arguments.mode {
        let [own, given] = [settings.mode, mode].map(|mode| mode.words());
        if settings.mode != mode && settings.mode != Mode::default() {
            note_in_file(&format!(
                "mode = \"{own}\" in the file: `limiter reload` will refuse it while --mode {given} is in force"
            ));
        }
        settings.mode = mode;
    }
}

/// The names of the attachments to these interfaces, for packets in this direction.
fn directed(names: &[String], direction: Direction, advice: &str) -> Result<Vec<String>, Usage> {
    let directed = |name: &String| match (direction_of(name), direction) {
        ((name, Direction::In), Direction::Out) => Ok(format!("{name}{OUT}")),
        ((_, Direction::Out), Direction::In) => Err(Usage(format!(
            "'{name}' stands for packets that the interface sends, but these limits are for those that arrive: {advice}, or write the name without {OUT}"
        ))),
        _ => Ok(name.clone()),
    };
    names.iter().map(directed).collect()
}
