use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use limiter_config::{
    Burst, Invalid, Limit, Malformed, NewSources, OrNone, Rate, Settings, control::is_control,
    invalid,
};
use limiter_kernel::{Attachment, ops::set::set};

use crate::cli::shared::{
    ForPrograms, Lasting, On, about, allow_first, each, note_stale_file, report_changes, usage,
    warn_of_change,
};

/// Change rate, burst and other settings while traffic flows
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
#[command(override_usage = "limiter set <IFACE>... [--limit <NAME>] [OPTIONS]")]
pub struct Set {
    #[command(flatten)]
    on: On,
    /// New rate as in 500/s or 10mbit
    #[arg(long, group = "change", allow_hyphen_values = true)]
    rate: Option<Rate>,
    /// New burst: packets, or bytes as in 64kb. Default: a configured burst stays, another one follows the rate
    #[arg(long, value_name = "N", group = "change", allow_hyphen_values = true)]
    burst: Option<Burst>,
    /// Limit to change. Default: the only limit
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// Count, but drop nothing (on), or drop (off): on the interface, or with --limit, by that limit
    #[arg(long, group = "change", value_parser = PossibleValuesParser::new(["on", "off"]).map(|text| text == "on"))]
    shadow: Option<bool>,
    /// New maximum rate of new sources as in 10k/s, or none for no limit
    #[arg(
        long,
        value_name = "RATE|none",
        group = "change",
        allow_hyphen_values = true
    )]
    new_sources: Option<OrNone<Rate>>,
    /// Verdict for malformed IP packets
    #[arg(long, value_enum, group = "change")]
    malformed: Option<Malformed>,
    #[command(flatten)]
    lasting: Lasting,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Set) -> anyhow::Result<()> {
    arguments.programs.changes();
    if let (Some(rate), Some(burst)) = (&arguments.rate, arguments.burst) {
        burst.for_rate(rate).map_err(usage)?;
    }
    let change = async |interface: &str| change_on(interface, &arguments).await;
    each(&arguments.on.interfaces, change).await
}

async fn change_on(interface: &str, arguments: &Set) -> anyhow::Result<()> {
    let merged = |settings: &Settings| merged(settings, arguments);
    let after = |attachment: &Attachment, _: &Settings| {
        let new = merged(&attachment.own_settings().ok()?).ok()?;
        Some(attachment.record.with_fleet(new).0)
    };
    warn_of_change(interface, after, |client| allow_first(interface, client)).await;
    let lasts = arguments.lasting.lasts();
    let changed = set(interface, lasts, merged).await;
    let changed = changed.map_err(about(interface))?;
    report_changes(interface, &changed, lasts, false);
    note_stale_file(interface, &changed, lasts);
    Ok(())
}

fn merged(settings: &Settings, arguments: &Set) -> Result<Settings, Invalid> {
    let mut new = settings.clone();
    let of_limit =
        arguments.rate.is_some() || arguments.burst.is_some() || arguments.limit.is_some();
    if of_limit {
        let limit = chosen(&mut new.limits, arguments.limit.as_deref())?;
        limit.rate = arguments.rate.unwrap_or(limit.rate);
        limit.burst = arguments.burst.or(limit.burst);
        if arguments.limit.is_some() {
            limit.shadow = arguments.shadow.unwrap_or(limit.shadow);
        }
    }
    if arguments.limit.is_none() {
        new.shadow = arguments.shadow.unwrap_or(new.shadow);
    }
    new.malformed = arguments.malformed.unwrap_or(new.malformed);
    if let Some(OrNone(rate)) = arguments.new_sources {
        let before = new.new_sources.unwrap_or_default();
        new.new_sources = rate.map(|rate| NewSources { rate, ..before });
    }
    new.check()?;
    Ok(new)
}

/// The limit of that name. Without a name: the only limit.
fn chosen<'a>(limits: &'a mut [Limit], name: Option<&str>) -> Result<&'a mut Limit, Invalid> {
    let index = match name {
        Some(name) => limits.iter().position(|limit| limit.name == name),
        None => (limits.len() == 1).then_some(0),
    };
    if let Some(index) = index {
        return Ok(&mut limits[index]);
    }
    let names: Vec<_> = limits.iter().map(|limit| &*limit.name).collect();
    let listed = names.join(", ");
    Err(match (name, limits.first()) {
        (_, None) => invalid!(
            "there is no limit to change, only lists: write a [[limit]] in the file, and reload"
        ),
        (Some(name), _) if is_control(name) => invalid!(
            "'{name}' is built in: change its rate under [control] in the configuration file, and reload"
        ),
        (Some(name), _) => invalid!("there is no limit '{name}': write one of {listed}"),
        (None, Some(first)) => invalid!(
            "there are several limits: {listed}: name one, as in --limit {}",
            first.name
        ),
    })
}
