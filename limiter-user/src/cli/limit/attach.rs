//! `limiter attach`.

use std::{net::IpAddr, time::Duration};

use clap::Args;

use super::reload::{allow_in, put_in_force};
use crate::{
    cli::shared::{
        About, DAY, Limiting, SECOND, Usage, duration, interface, note, outcome, read_for, report,
        settings, ssh, unique, warn_of_full_tables,
    },
    config::{
        Direction, Mode,
        names::{self, OUT, direction_of},
    },
    kernel::{
        Attachment, Error,
        ops::{
            attach::attach,
            detach::detach,
            replace::replace,
            set::{Lasts, Wanted},
            trial,
        },
        sys::{bpf::Place, requirements},
    },
    observe::collect,
    plan::doctor::proof,
    show,
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
    /// (generic), or tc where XDP does not work
    #[arg(
        long,
        visible_alias = "hook",
        value_enum,
        default_value_t,
        conflicts_with = "config"
    )]
    mode: Mode,
    /// Mode tc: in front of the program with this id, instead of in front of all
    #[arg(long, value_name = "ID", conflicts_with_all = ["after", "chain"])]
    before: Option<u32>,
    /// Mode tc: behind the program with this id
    #[arg(long, value_name = "ID", conflicts_with = "chain")]
    after: Option<u32>,
    /// Name of a fleet; the limit is shared by all its hosts
    #[arg(long, value_name = "NAME", value_parser = names::fleet, conflicts_with = "config")]
    fleet: Option<String>,
    /// Let all packets pass again after this time unless `limiter keep` runs before: 1s to 1day, as in 90s or 10m
    #[arg(long = "try", value_name = "DURATION", value_parser = duration(SECOND..=DAY, "90s"), allow_hyphen_values = true)]
    try_for: Option<Duration>,
    /// Attach in front of an existing XDP program. It gets the packets that pass; detach puts it back
    #[arg(long)]
    chain: bool,
    /// If limiter is attached already, apply this configuration there, as `reload` does
    #[arg(long, conflicts_with_all = ["try_for", "chain"])]
    or_reload: bool,
}

pub async fn run(arguments: Attach) -> anyhow::Result<()> {
    let (interfaces, wanted) = wanted(&arguments).await?;
    if arguments.chain && wanted.settings.direction == Direction::Out {
        let why =
            "--chain is for XDP programs, and XDP sees no outgoing packets: leave --chain out";
        return Err(Usage(why.to_owned()).into());
    }
    let wanted = Wanted {
        chain: arguments.chain,
        place: arguments
            .before
            .map(Place::Before)
            .or(arguments.after.map(Place::After)),
        trial: arguments.try_for,
        ..wanted
    };
    if let Some(untested) = requirements::kernel()
        .ok()
        .and_then(|kernel| kernel.untested())
    {
        note(&untested);
    }
    let mut done: Vec<&str> = Vec::new();
    for interface in unique(&interfaces) {
        if arguments.or_reload && take_over(interface, &wanted, &arguments).await? {
            continue;
        }
        if is_so(interface, &wanted, &arguments).await {
            let text =
                format!("{interface}: unchanged: already attached with this configuration\n");
            outcome(true, &text);
            continue;
        }
        // A trial that is over leaves a program that passes all packets.
        if let Err(Error::TrialOver(..)) = Attachment::open(interface).await {
            detach(interface).await.about(interface)?;
        }
        ssh::warn(interface, &wanted.settings, |client| {
            how_to_stay(&arguments, client)
        });
        let attached = attach(interface, &wanted).await;
        if attached.is_err() {
            undo(&done).await;
        }
        attached.about(interface)?;
        done.push(interface);
    }
    for interface in done {
        match shown(interface).await {
            Ok(shown) => report(&shown),
            // The attach has succeeded, so this is no error.
            Err(error) => note(&format!(
                "{interface}: attached, but its state cannot be read: {error}"
            )),
        }
    }
    Ok(())
}

async fn shown(interface: &str) -> Result<String, Error> {
    let attachment = Attachment::open(interface).await?;
    warn_of_full_tables(
        interface,
        &attachment.record.settings,
        attachment.record.frame_max,
    );
    let settings = &attachment.record.settings;
    if let Some(finding) = proof(settings, requirements::has_syn_cookies(), None)
        && let Some(advice) = finding.advice
    {
        note(&format!("{interface}: {}: {advice}", finding.found));
    }
    let shown = collect::interface(&attachment, AGENT).await?;
    let undo = format!("  undo     limiter detach {interface}\n");
    Ok(show::status::interface(&shown) + &undo)
}

/// Returns true if limiter is attached with these settings, and for good.
async fn is_so(interface: &str, wanted: &Wanted, arguments: &Attach) -> bool {
    let Ok(attachment) = Attachment::open(interface).await else {
        return false;
    };
    arguments.try_for.is_none()
        && attachment.try_until().is_none()
        && attachment.record.chained == arguments.chain
        && attachment
            .own_settings()
            .is_ok_and(|settings| settings == wanted.settings)
}

/// Puts the configuration in force if limiter is attached already, for good if it was on trial. Returns `false` if
/// nothing is attached. Then it has cleared the leftovers of an interface that is gone, or that limiter was taken off
/// by force.
async fn take_over(interface: &str, wanted: &Wanted, arguments: &Attach) -> anyhow::Result<bool> {
    match Attachment::open(interface).await {
        Ok(_) => {}
        Err(Error::OtherVersion(..)) => return replaced(interface, wanted).await,
        Err(Error::TakenOff(_)) => {
            detach(interface).await.about(interface)?;
            return Ok(false);
        }
        // `attach` reports any other trouble.
        Err(_) => return Ok(false),
    }
    let advice = |client| how_to_stay(arguments, client);
    put_in_force(interface, wanted.clone(), Lasts::ForGood, advice).await?;
    trial::end(interface, false).await.about(interface)?;
    Ok(true)
}

/// Replaces another version's attachment.
async fn replaced(interface: &str, wanted: &Wanted) -> anyhow::Result<bool> {
    let Some(layout) = replace(interface, wanted).await.about(interface)? else {
        return Ok(false);
    };
    report(&format!(
        "{interface}: replaced another version of limiter (layout {layout}) without a gap; all buckets start full, all counters at 0\n"
    ));
    Ok(true)
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
    let Some(path) = &arguments.limiting.config else {
        let limiting = &arguments.limiting;
        let outward = |name: &String| direction_of(name).1 == Direction::Out;
        let by_name = if arguments.interfaces.iter().all(outward) {
            Direction::Out
        } else {
            Direction::In
        };
        let direction = limiting.direction.unwrap_or(by_name);
        let fleet = arguments.fleet.as_deref();
        let settings = settings(limiting, direction, arguments.mode, fleet)?;
        let interfaces = directed(
            &arguments.interfaces,
            direction,
            "use one direction in one command",
        )?;
        let wanted = Wanted {
            settings,
            ..Wanted::default()
        };
        return Ok((interfaces, wanted));
    };
    let (in_file, wanted) = read_for(&arguments.interfaces, path).await?;
    let interfaces = if arguments.interfaces.is_empty() {
        in_file
    } else {
        arguments.interfaces.clone()
    };
    if interfaces.is_empty() {
        return Err(Usage(format!(
            "{} names no interfaces: write them on the command line, or as interfaces = [...] in the file",
            path.display()
        ))
        .into());
    }
    let advice = format!("write direction = \"out\" in {}", path.display());
    let interfaces = directed(&interfaces, wanted.settings.direction, &advice)?;
    Ok((interfaces, wanted))
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

/// Detaches again from the interfaces in `done`: all interfaces or none.
async fn undo(done: &[&str]) {
    for interface in done {
        match detach(interface).await {
            Ok(_) => note(&format!(
                "{interface}: detached again, because another interface failed"
            )),
            Err(error) => note(&format!(
                "{interface}: still attached, because detaching failed: {error}"
            )),
        }
    }
}
