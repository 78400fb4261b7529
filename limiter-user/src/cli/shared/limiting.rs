//! The flags of `attach` and `replay` that describe a limit, and their meaning.

use std::{path::PathBuf, str::FromStr as _};

use clap::{Args, Command, Id};
use ipnet::IpNet;
use limiter_config::{
    Burst, Direction, Exempt, Invalid, Key, Limit, Lists, Malformed, Match, Mode, NewSources,
    OrNone, Proof, Proofs, Protocol, Rate, Scope, Settings,
    matches::{PortRange, TcpFlags},
    settings::DEFAULT_LIMIT,
    words::Exemption,
};

use super::{Usage, count, note, prefix, usage};
use crate::cli::other::preset::{self, Recipe, recipe};

// No doc comment: clap would make it the help of the verb.
#[derive(Debug, Args)]
pub struct Limiting {
    #[command(flatten)]
    pub flags: Flags,
    /// Configuration file, instead of these options; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = names_without(&["shadow"]))]
    pub config: Option<PathBuf>,
    /// Limits of a preset (`limiter preset` lists them), instead of these options; several as in web,ssh. The example
    /// prefixes of its lists are left out
    #[arg(long = "preset", id = "preset", value_name = "NAME", value_delimiter = ',', value_parser = recipe(), hide_possible_values = true,
          conflicts_with_all = names_without(&["shadow", "allow", "deny"]), conflicts_with = "config")]
    pub presets: Vec<Recipe>,
}

/// The names of all flags but some.
fn names_without(some: &[&str]) -> Vec<Id> {
    let command = Flags::augment_args(Command::new(""));
    let names = command.get_arguments().map(|flag| flag.get_id().clone());
    names
        .filter(|name| !some.contains(&name.as_str()))
        .collect()
}

// The limit, and other settings of a configuration file.
#[derive(Debug, Args)]
pub struct Flags {
    /// Rate of each source: packets as in 5/s, 300/m, 10/6s or 1k/s; bits per second as in 64kbit or 10mbit
    #[arg(
        long,
        value_name = "RATE",
        required_unless_present_any = ["config", "preset", "connections"],
        allow_hyphen_values = true
    )]
    pub rate: Option<Rate>,
    /// Burst: packets as in 10 or 2k; bytes as in 64kb or 1mb for a rate in bits. Default: the
    /// amount of the period, as in 6/30s: six; one second of a rate in bits
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub burst: Option<Burst>,
    /// Key of a bucket: prefix lengths of the source for IPv4 and IPv6, interface for one bucket for all
    /// packets, destination, "source + destination", or flow. Default: the source; with --direction out, the destination
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub key: Option<Key>,
    /// Only packets of this protocol, as in tcp
    #[arg(long, value_name = "NAME")]
    pub protocol: Option<Protocol>,
    /// Only packets to these ports, as in 22, https or 5300-5353
    #[arg(long, value_name = "PORT,...", value_delimiter = ',')]
    pub port: Vec<PortRange>,
    /// Only TCP segments with these flags, as in syn: requests to connect
    #[arg(long = "flags", value_name = "FLAGS")]
    pub tcp_flags: Option<TcpFlags>,
    /// Number of open TCP connections of each source, or key, to the host's sockets at these ports; further requests to connect are
    /// dropped. In a limit of its own, called open, which also limits these requests to 1k/s
    #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true)]
    pub connections: Option<u64>,
    /// The packets to limit: those that arrive, or those that the interface sends (IFACE:out)
    #[arg(long, value_enum)]
    pub direction: Option<Direction>,
    /// Count packets that would be dropped, but drop nothing
    #[arg(long)]
    pub shadow: bool,
    /// Verdict for malformed IP packets, which the host discards
    #[arg(long, value_enum, default_value_t)]
    pub malformed: Malformed,
    /// Prefix of sources that pass before the limit; can be repeated
    #[arg(long, value_name = "CIDR", value_parser = prefix)]
    pub allow: Vec<IpNet>,
    /// Prefix of sources that are dropped before the limit; can be repeated
    #[arg(long, value_name = "CIDR", value_parser = prefix)]
    pub deny: Vec<IpNet>,
    /// Number of sources that the table holds; attach prints its memory
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_sources, value_parser = number, allow_hyphen_values = true)]
    pub max_sources: u32,
    /// Number of bans that there is room for, one for each prefix and origin; 0 for none
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_bans, value_parser = number, allow_hyphen_values = true)]
    pub max_bans: u32,
    /// Maximum rate of new sources in the table, against spoofed floods; none for no limit
    #[arg(
        long,
        value_name = "RATE|none",
        default_value_t = OrNone(Some(NewSources::default().rate)),
        allow_hyphen_values = true
    )]
    pub new_sources: OrNone<Rate>,
    /// Maximum number of new sources at once. Default: 6.5536 seconds of --new-sources
    #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true)]
    pub new_sources_burst: Option<u64>,
    /// Packets that are exempt from the limits: established (of the host's own connections), control (ARP, neighbour
    /// discovery, DHCP), vrrp, ospf, bfd
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT,...")]
    pub exempt: Vec<Exemption>,
    /// Proofs that let new sources in during a flood: syn-cookie (TCP), dns-tc (DNS), a2s (game servers); or none
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WAY,...")]
    pub proof: Vec<Proof>,
}

/// Numbers beyond `u32` are beyond the bounds too, which is reported with the other problems.
fn number(text: &str) -> Result<u32, Invalid> {
    count(text).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

impl Limiting {
    /// The settings from presets, if there are any.
    pub fn of_presets(&self) -> anyhow::Result<Option<Settings>> {
        let Self { flags, presets, .. } = self;
        if presets.is_empty() {
            return Ok(None);
        }
        let mut settings = preset::merged(presets).map_err(usage)?;
        for list in settings.lists.tiers.keys() {
            note(&format!(
                "list '{list}' is empty, and limits match on it: `limiter tier add IFACE {list} CIDR` fills it"
            ));
        }
        settings.shadow = flags.shadow;
        settings.lists.allow.extend(&flags.allow);
        settings.lists.deny.extend(&flags.deny);
        settings.check().map_err(usage)?;
        Ok(Some(settings))
    }
}

/// The limit on open connections.
fn of_connections(flags: &Flags, direction: Direction, most: u64) -> Limit {
    /// Requests to connect of one source: more than hosts send that do not attack.
    const REQUESTS: u64 = 1_000;
    Limit {
        key: flags.key.unwrap_or_else(|| Key::of_peers(direction)),
        matches: Match {
            protocol: Some(Protocol::TCP),
            destination_port: flags.port.clone(),
            tcp_flags: TcpFlags::from_str("syn").ok(),
            ..Match::default()
        },
        connections: Some(most),
        ..Limit::new("open", Rate::packets_per_second(REQUESTS))
    }
}

/// The settings from flags. `fleet` shares the limit.
pub fn settings(
    flags: &Flags,
    direction: Direction,
    mode: Mode,
    fleet: Option<&str>,
) -> anyhow::Result<Settings> {
    if flags.rate.is_none() && flags.connections.is_none() {
        let why = "a rate is missing: write --rate RATE, or --config FILE";
        anyhow::bail!(Usage(why.to_owned()));
    }
    let limit = |rate| Limit {
        burst: flags.burst,
        key: flags.key.unwrap_or_else(|| Key::of_peers(direction)),
        matches: Match {
            protocol: flags.protocol.or(flags.tcp_flags.map(|_| Protocol::TCP)),
            destination_port: flags.port.clone(),
            tcp_flags: flags.tcp_flags,
            ..Match::default()
        },
        proof: Proofs::new(&flags.proof),
        scope: fleet.map_or(Scope::Host, |_| Scope::Fleet),
        ..Limit::new(DEFAULT_LIMIT, rate)
    };
    let connections = flags
        .connections
        .map(|most| of_connections(flags, direction, most));
    let settings = Settings {
        mode,
        direction,
        max_sources: flags.max_sources,
        max_bans: flags.max_bans,
        new_sources: flags.new_sources.0.map(|rate| NewSources {
            burst: flags.new_sources_burst,
            ..NewSources::new(rate)
        }),
        exempt: Exempt::new(&flags.exempt),
        malformed: flags.malformed,
        shadow: flags.shadow,
        lists: Lists {
            allow: flags.allow.iter().copied().collect(),
            deny: flags.deny.iter().copied().collect(),
            ..Lists::default()
        },
        limits: (flags.rate.map(limit).into_iter().chain(connections)).collect(),
        fleet: fleet.map(str::to_owned),
        ..Settings::default()
    };
    settings.check().map_err(usage)?;
    Ok(settings)
}
