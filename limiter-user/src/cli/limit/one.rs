//! `limiter limit`.

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use limiter_config::{
    Burst, Invalid, Key, Limit, Match, Protocol, Rate, Settings,
    control::is_control,
    invalid,
    matches::{PortRange, TcpFlags},
    names,
};
use limiter_kernel::{Attachment, ops::set::set};

use crate::cli::shared::{
    ForPrograms, Lasting, OnOne, about, allow_first, each, note_stale_file, report_changes, usage,
    warn_of_change,
};

/// Add a limit beside others, change it, or remove it
///
/// A limit that exists keeps what is not given. Files can say more about a limit: see limiter.toml(5).
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("terms").required(true).multiple(true)))]
#[command(override_usage = "limiter limit <IFACE> <NAME> [OPTIONS]")]
pub struct One {
    #[command(flatten)]
    on: OnOne,
    /// Name of the limit, as in ssh
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,
    /// Rate of each source as in 5/m, 1k/s or 10mbit; required for a new limit
    #[arg(long, group = "terms", allow_hyphen_values = true)]
    rate: Option<Rate>,
    /// Burst: packets, or bytes as in 64kb. Default: the amount of the period
    #[arg(long, value_name = "N", group = "terms", allow_hyphen_values = true)]
    burst: Option<Burst>,
    /// Key of a bucket, as for attach
    #[arg(long, value_name = "KEY", group = "terms", allow_hyphen_values = true)]
    key: Option<Key>,
    /// Only packets of this protocol, as in tcp
    #[arg(long, value_name = "NAME", group = "terms")]
    protocol: Option<Protocol>,
    /// Only packets to these ports, as in 22, https or 5300-5353
    #[arg(long, value_name = "PORT,...", group = "terms", value_delimiter = ',')]
    port: Vec<PortRange>,
    /// Only TCP segments with these flags, as in syn: requests to connect
    #[arg(long, value_name = "FLAGS", group = "terms")]
    flags: Option<TcpFlags>,
    /// Number of open TCP connections of each source or key; further requests to connect are dropped. 0: any number
    #[arg(long, value_name = "N", group = "terms", allow_hyphen_values = true)]
    connections: Option<u64>,
    /// The whole match as in a file instead, as in '{ protocol = "udp", source_port = 53 }'
    #[arg(long = "match", value_name = "TABLE", group = "terms", conflicts_with_all = ["protocol", "port", "flags"])]
    matches: Option<Match>,
    /// Count, but drop nothing by this limit (on), or drop (off)
    #[arg(long, group = "terms", value_parser = PossibleValuesParser::new(["on", "off"]).map(|text| text == "on"))]
    shadow: Option<bool>,
    /// Remove the limit
    #[arg(long, group = "terms", conflicts_with_all = ["rate", "burst", "key", "protocol", "port", "flags", "matches", "connections", "shadow"])]
    remove: bool,
    #[command(flatten)]
    lasting: Lasting,
    #[command(flatten)]
    programs: ForPrograms,
}

fn name(text: &str) -> Result<String, Invalid> {
    names::name(text).map(|()| text.to_owned())
}

pub async fn run(arguments: One) -> anyhow::Result<()> {
    arguments.programs.changes();
    if let (Some(rate), Some(burst)) = (&arguments.rate, arguments.burst) {
        burst.for_rate(rate).map_err(usage)?;
    }
    let change = async |interface: &str| change_on(interface, &arguments).await;
    each(&arguments.on.interfaces, change).await
}

async fn change_on(interface: &str, arguments: &One) -> anyhow::Result<()> {
    let changed = |settings: &Settings| changed(settings, arguments);
    let after = |attachment: &Attachment, _: &Settings| {
        let new = changed(&attachment.own_settings().ok()?).ok()?;
        Some(attachment.record.with_fleet(new).0)
    };
    warn_of_change(interface, after, |client| allow_first(interface, client)).await;
    let lasts = arguments.lasting.lasts();
    let swapped = set(interface, lasts, changed).await;
    let swapped = swapped.map_err(about(interface))?;
    report_changes(interface, &swapped, lasts, false);
    note_stale_file(interface, &swapped, lasts);
    Ok(())
}

/// The settings with the new, changed or removed limit.
fn changed(settings: &Settings, arguments: &One) -> Result<Settings, Invalid> {
    let One { name, .. } = arguments;
    let mut new = settings.clone();
    let place = new.limits.iter().position(|limit| limit.name == *name);
    match place {
        Some(place) if arguments.remove => _ = new.limits.remove(place),
        Some(place) => apply(&mut new.limits[place], arguments),
        None => {
            let rate = arguments.rate.filter(|_| !arguments.remove);
            let rate = rate.ok_or_else(|| unknown(settings, name))?;
            let mut limit = Limit {
                key: Key::of_peers(settings.direction),
                ..Limit::new(name, rate)
            };
            apply(&mut limit, arguments);
            new.limits.push(limit);
        }
    }
    new.check()?;
    Ok(new)
}

/// Sets the given terms.
fn apply(limit: &mut Limit, arguments: &One) {
    limit.rate = arguments.rate.unwrap_or(limit.rate);
    limit.burst = arguments.burst.or(limit.burst);
    limit.key = arguments.key.unwrap_or(limit.key);
    limit.shadow = arguments.shadow.unwrap_or(limit.shadow);
    if let Some(most) = arguments.connections {
        limit.connections = Some(most).filter(|most| *most != 0);
    }
    if let Some(matches) = &arguments.matches {
        limit.matches.clone_from(matches);
    }
    let Match {
        protocol,
        destination_port,
        tcp_flags,
        ..
    } = &mut limit.matches;
    let of_flags = arguments.flags.map(|_| Protocol::TCP);
    let of_flags = of_flags.or(limit.connections.map(|_| Protocol::TCP));
    *protocol = arguments.protocol.or(*protocol).or(of_flags);
    *tcp_flags = arguments.flags.or(*tcp_flags);
    if !arguments.port.is_empty() {
        destination_port.clone_from(&arguments.port);
    }
}

/// The error for a limit that does not exist, and cannot be made.
fn unknown(settings: &Settings, name: &str) -> Invalid {
    let names: Vec<_> = settings.limits.iter().map(|limit| &*limit.name).collect();
    let known = match names.join(", ") {
        names if names.is_empty() => "there is no limit".to_owned(),
        names => format!("there is {names}"),
    };
    match is_control(name) {
        true => invalid!(
            "'{name}' is built in: change it under [control] in the configuration file, and reload"
        ),
        false => invalid!(
            "there is no limit '{name}' ({known}): a new one needs --rate, as in --rate 5/m"
        ),
    }
}
