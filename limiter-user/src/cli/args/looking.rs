//! Verbs that look at what is attached, and `reset`.

use std::{
    net::{IpAddr, SocketAddr},
    num::{NonZeroU64, NonZeroUsize},
    time::Duration,
};

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use ipnet::IpNet;
use limiter_common::policy::verdict::Reason;

use super::{
    OnOne,
    interfaces::{Names, names},
    values::{address, interface, listen, prefix},
};
use crate::export;

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct Status {
    /// The interface, or several; left out, or all, every one that limiter is attached to
    #[arg(value_name = "IFACE", value_delimiter = ',', value_parser = interface)]
    pub interfaces: Vec<String>,
    /// For programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct Check {
    /// Where
    #[command(flatten)]
    pub on: OnOne,
    /// The source
    #[arg(value_name = "ADDRESS", value_parser = address)]
    pub address: IpAddr,
    /// For programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `reset`.
#[derive(Debug, Args)]
pub struct Reset {
    /// The interface, or several as in eth0,eth1; all stands for every one that limiter is attached to
    #[arg(value_name = "IFACE", value_parser = names)]
    pub interfaces: Names,
    /// The source
    #[arg(value_name = "ADDRESS", value_parser = address, required_unless_present = "all", conflicts_with = "all")]
    pub address: Option<IpAddr>,
    /// All sources
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct Top {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
    /// Print once and end
    #[arg(long)]
    pub once: bool,
    /// How many sources: 20 with --once, 200 in the live view (at most 1,000 there), unless told
    #[arg(short = 'n', value_name = "N")]
    pub most: Option<NonZeroUsize>,
    /// For programs
    #[arg(long, requires = "once")]
    pub json: bool,
    /// How often the live view looks, and over how long --once measures rates: 100ms to 10s
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    let given = humantime::parse_duration(text)
        .map_err(|error| format!("{error}: write one as in 500ms or 2s"))?;
    let possible = Duration::from_millis(100)..=Duration::from_secs(10);
    if possible.contains(&given) {
        return Ok(given);
    }
    Err("write 100ms to 10s".to_owned())
}

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
    /// Only what comes from these sources
    #[arg(long, value_name = "CIDR", value_parser = prefix)]
    pub source: Option<IpNet>,
    /// Only what is over this limit
    #[arg(long, value_name = "NAME")]
    pub limit: Option<String>,
    /// Only what is dropped for this reason, or one of these
    #[arg(long, value_parser = drop_reason(), value_delimiter = ',', value_name = "REASON,...")]
    pub reason: Vec<Reason>,
    /// End after so many
    #[arg(short = 'n', long, value_name = "N")]
    pub count: Option<NonZeroU64>,
    /// For programs: a line of JSON each
    #[arg(long)]
    pub json: bool,
}

/// The names of reasons to drop, with their texts as help.
fn drop_reason() -> impl TypedValueParser<Value = Reason> {
    let names = Reason::drops().map(|reason| PossibleValue::new(reason.name()).help(reason.text()));
    PossibleValuesParser::new(names)
        .try_map(|name| Reason::from_name(&name).ok_or("unknown reason"))
}

/// Arguments of `log`.
#[derive(Debug, Args)]
pub struct Log {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Where to listen: others than this machine reach it only if an address of it is given, and then without
    /// having to say who they are
    #[arg(long, value_name = "ADDR:PORT", default_value_t = export::LISTEN, value_parser = listen)]
    pub listen: SocketAddr,
}
