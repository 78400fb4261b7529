//! Verbs that begin to limit, change how, or end it; and `replay`, which limits a capture.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;

use super::{
    On,
    values::{
        Change, FleetOrNone, NewSourcesRate, count, count_or_factor, duration, fleet, interface,
        max_sources, prefix,
    },
};
use crate::{
    config::{Burst, Key, Malformed, Mode, Rate},
    kernel::ops::{set::Lasts, trial},
};

/// The limit, and what else a configuration file may say: for `attach` and `replay`.
#[derive(Debug, Args)]
pub struct Limiting {
    /// How fast a source may send: 5, 5/s, 300/m, 10/6s, 1k/s in packets; 64kbit, 10mbit, 1gbit in bits
    #[arg(
        long,
        value_name = "RATE",
        required_unless_present = "config",
        allow_hyphen_values = true
    )]
    pub rate: Option<Rate>,
    /// How much at once: packets (10, 2k), or bytes for a bit rate (64kb, 1mb); left out, what the rate
    /// gives in one second
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub burst: Option<Burst>,
    /// What makes a source: prefix lengths for IPv4 and IPv6, or interface for one bucket for all
    #[arg(
        long,
        value_name = "PREFIX",
        default_value_t,
        allow_hyphen_values = true
    )]
    pub key: Key,
    /// Count what would be dropped, and drop nothing
    #[arg(long)]
    pub shadow: bool,
    /// What happens to IP packets with an impossible header, which the host discards
    #[arg(long, value_enum, default_value_t)]
    pub malformed: Malformed,
    /// Sources that pass before the limit
    #[arg(long, value_name = "CIDR", value_parser = prefix)]
    pub allow: Vec<IpNet>,
    /// Sources that are dropped before the limit
    #[arg(long, value_name = "CIDR", value_parser = prefix)]
    pub deny: Vec<IpNet>,
    /// How many sources the table holds; its memory is shown
    #[arg(long, value_name = "N", default_value = "65536", value_parser = max_sources, allow_hyphen_values = true)]
    pub max_sources: u32,
    /// How fast new sources are taken into the table, against spoofed ones; none for no limit
    #[arg(
        long,
        value_name = "RATE|none",
        default_value = "10k/s",
        allow_hyphen_values = true
    )]
    pub new_sources: NewSourcesRate,
    /// How many new sources at once; left out, what 6.5536 seconds bring
    #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true)]
    pub new_sources_burst: Option<u64>,
    /// What the limit does not hold
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT,...")]
    pub exempt: Vec<Exemption>,
    /// Everything from a file instead
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["rate", "burst", "key", "shadow", "malformed", "allow", "deny", "max_sources", "new_sources", "new_sources_burst", "exempt"]
    )]
    pub config: Option<PathBuf>,
}

/// What the limits do not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Exemption {
    /// Packets of connections of the host's own sockets.
    Established,
    /// ARP, neighbour discovery and DHCP: they have a limit of their own.
    Control,
}

/// Arguments of `attach`.
#[derive(Debug, Args)]
pub struct Attach {
    /// The interfaces; all of them, or none if one fails
    #[arg(value_name = "IFACE", required_unless_present = "config", value_delimiter = ',', value_parser = interface)]
    pub interfaces: Vec<String>,
    /// What to hold them to
    #[command(flatten)]
    pub limiting: Limiting,
    /// Where the program runs
    #[arg(long, value_enum, default_value_t, conflicts_with = "config")]
    pub mode: Mode,
    /// Share the limit with the other hosts of this fleet
    #[arg(long, value_name = "NAME", value_parser = fleet, conflicts_with = "config")]
    pub fleet: Option<String>,
    /// Let everything pass again after this time, unless `limiter keep` is said before: 90s, 10m, at most 1day
    #[arg(long = "try", value_name = "DURATION", value_parser = try_for, allow_hyphen_values = true)]
    pub try_for: Option<Duration>,
    /// In front of the XDP program that is there: it gets what passes, and is put back on detach
    #[arg(long)]
    pub chain: bool,
    /// Where limiter is attached already, put this configuration in force there, as `reload` does
    #[arg(long, conflicts_with_all = ["try_for", "chain"])]
    pub or_reload: bool,
}

/// For how long a change is made.
#[derive(Debug, Args)]
pub struct Lasting {
    /// Undo it by itself after this time, unless `limiter keep` is said before: 90s, 10m, at most 1day
    #[arg(long = "try", value_name = "DURATION", value_parser = try_for, allow_hyphen_values = true)]
    try_for: Option<Duration>,
    /// Say what would change, and change nothing
    #[arg(long, conflicts_with = "try_for")]
    dry_run: bool,
}

impl Lasting {
    /// For how long.
    #[must_use]
    pub fn lasts(&self) -> Lasts {
        match self.try_for {
            _ if self.dry_run => Lasts::DryRun,
            Some(duration) => Lasts::Trial(duration),
            None => Lasts::ForGood,
        }
    }
}

fn try_for(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if trial::BOUNDS.contains(&duration) {
        Ok(duration)
    } else {
        Err("a trial lasts 1s to 1day: write a duration in between, as in 2m".to_owned())
    }
}

/// Arguments of `keep`.
#[derive(Debug, Args)]
pub struct Keep {
    /// Where
    #[command(flatten)]
    pub on: On,
    /// End the trial now instead, and go back to what was before it
    #[arg(long)]
    pub revert: bool,
}

/// Arguments of `detach`.
#[derive(Debug, Args)]
pub struct Detach {
    /// The interfaces
    #[arg(value_name = "IFACE", required_unless_present = "all", conflicts_with = "all", value_delimiter = ',', value_parser = interface)]
    pub interfaces: Vec<String>,
    /// All that limiter is attached to, and what is left of interfaces that are gone
    #[arg(long)]
    pub all: bool,
    /// With --all: in other network namespaces too, and what versions have attached that this one cannot read
    #[arg(long, requires = "all")]
    pub everywhere: bool,
}

/// Arguments of `set`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
#[command(override_usage = "limiter set <IFACE>... [--limit <NAME>] [OPTIONS]")]
pub struct Set {
    /// Where
    #[command(flatten)]
    pub on: On,
    /// The new rate, or a factor for the one in force: x0.5 halves it
    #[arg(
        long,
        value_name = "RATE|xFACTOR",
        group = "change",
        allow_hyphen_values = true
    )]
    pub rate: Option<Change<Rate>>,
    /// The new burst, or a factor; left out, a burst that was written stays
    #[arg(
        long,
        value_name = "N|xFACTOR",
        group = "change",
        allow_hyphen_values = true
    )]
    pub burst: Option<Change<Burst>>,
    /// Which limit; left out, the only one, or all of them for a factor
    #[arg(long, value_name = "NAME")]
    pub limit: Option<String>,
    /// Whether to drop nothing: on the interface, or by the limit that is named
    #[arg(long, value_enum, group = "change")]
    pub shadow: Option<Switch>,
    /// How fast new sources are taken in, or a factor
    #[arg(
        long,
        value_name = "RATE|xFACTOR|none",
        group = "change",
        allow_hyphen_values = true
    )]
    pub new_sources: Option<Change<NewSourcesRate>>,
    /// How many new sources at once, or a factor
    #[arg(long, value_name = "N|xFACTOR", group = "change", value_parser = count_or_factor, allow_hyphen_values = true)]
    pub new_sources_burst: Option<Change<u64>>,
    /// What happens to IP packets with an impossible header
    #[arg(long, value_enum, group = "change")]
    pub malformed: Option<Malformed>,
    /// The fleet to share the limit with, the named one where there are several; none for no fleet at all
    #[arg(long, value_name = "NAME|none", group = "change")]
    pub fleet: Option<FleetOrNone>,
    /// For how long
    #[command(flatten)]
    pub lasting: Lasting,
}

/// On or off.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// Arguments of `reload`.
#[derive(Debug, Args)]
pub struct Reload {
    /// Where
    #[command(flatten)]
    pub on: On,
    /// The file; left out, the one that was last put in force
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// For how long
    #[command(flatten)]
    pub lasting: Lasting,
}

/// What to do with a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Say everything that is wrong with a file
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print what is in force, as a file that can be used again
    Show {
        /// Where
        #[command(flatten)]
        on: On,
    },
}

/// Who decides in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// The program, in the kernel.
    Kernel,
    /// The same arithmetic in this process: needs no privileges.
    Model,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// A file of pcap or pcapng; - for standard input
    #[arg(value_name = "CAPTURE")]
    pub capture: PathBuf,
    /// What to hold its packets to
    #[command(flatten)]
    pub limiting: Limiting,
    /// Who decides; left out, the kernel if that is possible
    #[arg(long, value_enum)]
    pub engine: Option<Engine>,
    /// For programs
    #[arg(long)]
    pub json: bool,
    /// Write what becomes of each packet: number, pass or drop, and why, with tabs between; - for
    /// standard output
    #[arg(long, value_name = "OUT")]
    pub verdicts: Option<PathBuf>,
}
