//! What can be written on the command line.

use std::{
    net::{IpAddr, SocketAddr},
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, Parser, Subcommand, ValueEnum};

use ipnet::IpNet;

use crate::config::{Burst, Key, Malformed, Mode, NewSources, Rate, lists, number, settings};
use crate::export;
use crate::kernel::trial;

/// A packet rate limiter in the Linux kernel: one exact token bucket for each source address,
/// enforced at the network driver by XDP.
#[derive(Debug, Parser)]
#[command(name = "limiter", version, about, long_about = None, max_term_width = 100)]
#[command(after_help = "Exit status: 0 done, 1 it failed, 2 the command line is wrong.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Limit what comes in on an interface; stays in the kernel until `detach`
    Attach(Attach),
    /// Keep what `attach --try` has attached: it is no longer undone by itself
    Keep(Keep),
    /// Stop limiting, and leave nothing behind
    Detach(Detach),
    /// Show what is attached, how, and what it has done
    Status(Status),
    /// Change rate, burst, shadow and other things while traffic flows
    Set(Set),
    /// Put a configuration file in force again, after it was changed
    Reload(Reload),
    /// Sources that pass before any limit
    Allow {
        /// What to do with the list
        #[command(subcommand)]
        verb: ListVerb,
    },
    /// Sources that are dropped before any limit
    Deny {
        /// What to do with the list
        #[command(subcommand)]
        verb: ListVerb,
    },
    /// Lists of other names, which limits match on
    Tier {
        /// What to do with the list
        #[command(subcommand)]
        verb: TierVerb,
    },
    /// Check a configuration file, or show what is in force as one
    Config {
        /// Which of the two
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// Show one source: tokens, retry-after, passed, dropped
    Check(Check),
    /// Forget a source, or all: its bucket is full again
    Reset(Reset),
    /// Show who is sending and who is dropped
    Top(Top),
    /// Show drops as they happen, and what would be dropped but for shadow, until interrupted
    Watch(Watch),
    /// Print what the program decides about each packet, until interrupted (slow: for debugging)
    Log(Log),
    /// Serve metrics for Prometheus, and a page for people, until interrupted; changes nothing
    Export(Export),
    /// Show what limits would have done with a capture
    Replay(Replay),
    /// Watch without limiting, then propose limits as a configuration file
    Learn(Learn),
    /// Show what would go wrong with `attach`, before it does; changes nothing
    Doctor(Doctor),
    /// Two hosts in network namespaces, a flood, and what gets through
    Demo(Demo),
    /// Print shell completions
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff), of the whole command or of one verb
    Man {
        /// The verb
        verb: Option<String>,
    },
}

fn interface(text: &str) -> Result<String, String> {
    settings::interface(text)
        .map(|()| text.to_owned())
        .map_err(|error| error.to_string())
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| "not an address: write one as in 192.0.2.7 or 2001:db8::7".to_owned())
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "not an address with a port: write one as in 127.0.0.1:10546 or [::1]:10546".to_owned()
    })
}

fn max_sources(text: &str) -> Result<u32, String> {
    let most = settings::SOURCES_MAX;
    u32::try_from(count(text)?)
        .ok()
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| format!("the table holds 1 to {most} sources: write a number in between"))
}

fn count(text: &str) -> Result<u64, String> {
    number::parse(text, &[("", 1), ("k", 1_000), ("M", 1_000_000)])
        .map_err(|error| error.to_string())
}

fn prefix(text: &str) -> Result<IpNet, String> {
    lists::prefix(text).map_err(|error| error.to_string())
}

/// The rate of new sources, or none.
#[derive(Clone, Copy, Debug)]
pub struct NewSourcesRate(pub Option<Rate>);

impl std::str::FromStr for NewSourcesRate {
    type Err = crate::config::Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        text.parse().map(|rate| Self(Some(rate)))
    }
}

impl NewSourcesRate {
    /// With what may be bought at once.
    pub fn with_burst(self, burst: Option<u64>) -> Option<NewSources> {
        self.0.map(|rate| NewSources { rate, burst })
    }
}

/// What the limits do not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Exemption {
    /// Packets of connections of the host's own sockets.
    Established,
    /// ARP, neighbour discovery and DHCP: they have a limit of their own.
    Control,
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

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}: write one as in 90s or 10m"))
}

fn try_for(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if trial::BOUNDS.contains(&duration) {
        Ok(duration)
    } else {
        Err("a trial lasts 1s to 1day: write a duration in between, as in 2m".to_owned())
    }
}

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
    /// What happens to IP packets with an impossible header
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

/// Arguments of `attach`.
#[derive(Debug, Args)]
pub struct Attach {
    /// The interfaces; all of them, or none if one fails
    #[arg(value_name = "IFACE", required_unless_present = "config", value_parser = interface)]
    pub interfaces: Vec<String>,
    /// What to hold them to
    #[command(flatten)]
    pub limiting: Limiting,
    /// Where the program runs
    #[arg(long, value_enum, default_value_t, conflicts_with = "config")]
    pub mode: Mode,
    /// Undo it by itself after this time, unless `limiter keep` is said before: 90s, 10m, at most 1day
    #[arg(long = "try", value_name = "DURATION", value_parser = try_for, allow_hyphen_values = true)]
    pub try_for: Option<Duration>,
    /// In front of the XDP program that is there: it gets what passes, and is put back on detach
    #[arg(long)]
    pub chain: bool,
    /// Where limiter is attached already, put the file in force there, as `reload` does
    #[arg(long, requires = "config", conflicts_with_all = ["rate", "try_for", "chain"])]
    pub or_reload: bool,
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

/// Arguments of `keep`.
#[derive(Debug, Args)]
pub struct Keep {
    /// The interfaces
    #[arg(value_name = "IFACE", required = true, value_parser = interface)]
    pub interfaces: Vec<String>,
}

/// Arguments of `detach`.
#[derive(Debug, Args)]
pub struct Detach {
    /// The interfaces
    #[arg(value_name = "IFACE", required_unless_present = "all", conflicts_with = "all", value_parser = interface)]
    pub interfaces: Vec<String>,
    /// All that limiter is attached to, and what is left of interfaces that are gone
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct Status {
    /// The interface; left out, all that limiter is attached to
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: Option<String>,
    /// For programs
    #[arg(long)]
    pub json: bool,
}

/// On or off.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// Arguments of `set`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
#[command(override_usage = "limiter set <IFACE> [--limit <NAME>] [OPTIONS]")]
pub struct Set {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
    /// The new rate
    #[arg(
        long,
        value_name = "RATE",
        group = "change",
        allow_hyphen_values = true
    )]
    pub rate: Option<Rate>,
    /// The new burst
    #[arg(long, value_name = "N", group = "change", allow_hyphen_values = true)]
    pub burst: Option<Burst>,
    /// Which limit; may be left out where there is only one
    #[arg(long, value_name = "NAME")]
    pub limit: Option<String>,
    /// Whether to drop nothing: on the interface, or by the limit that is named
    #[arg(long, value_enum, group = "change")]
    pub shadow: Option<Switch>,
    /// How fast new sources are taken in
    #[arg(
        long,
        value_name = "RATE|none",
        group = "change",
        allow_hyphen_values = true
    )]
    pub new_sources: Option<NewSourcesRate>,
    /// How many new sources at once
    #[arg(long, value_name = "N", group = "change", value_parser = count, allow_hyphen_values = true)]
    pub new_sources_burst: Option<u64>,
    /// What happens to IP packets with an impossible header
    #[arg(long, value_enum, group = "change")]
    pub malformed: Option<Malformed>,
}

/// Arguments of `reload`.
#[derive(Debug, Args)]
pub struct Reload {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
    /// The file; left out, the one that was last put in force
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What to do with a list.
#[derive(Debug, Subcommand)]
pub enum ListVerb {
    /// Put prefixes on it; all of them, or none if one is wrong
    Add(ListEdit),
    /// Take prefixes off it; all of them, or none if one is not there
    Remove(ListEdit),
    /// Put these prefixes in the place of all that are on it
    Replace(ListEdit),
    /// Print what is on it
    List(ListShow),
}

/// What to do with a list that has a name.
#[derive(Debug, Subcommand)]
pub enum TierVerb {
    /// Put prefixes on it; all of them, or none if one is wrong
    Add(TierEdit),
    /// Take prefixes off it; all of them, or none if one is not there
    Remove(TierEdit),
    /// Put these prefixes in the place of all that are on it
    Replace(TierEdit),
    /// Print what is on it
    List(TierShow),
}

/// Prefixes for a list.
#[derive(Debug, Args)]
pub struct ListEdit {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
    /// What goes on it or off it
    #[command(flatten)]
    pub prefixes: GivenPrefixes,
}

/// Prefixes on the command line, or in a file.
#[derive(Debug, Args)]
pub struct GivenPrefixes {
    /// The prefixes; an address stands for itself alone
    #[arg(value_name = "CIDR", value_parser = prefix, required_unless_present = "file")]
    pub prefixes: Vec<IpNet>,
    /// A file with one prefix a line; # begins a comment
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Prefixes for a list that has a name.
#[derive(Debug, Args)]
pub struct TierEdit {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
    /// The list
    #[arg(value_name = "NAME")]
    pub name: String,
    /// What goes on it or off it
    #[command(flatten)]
    pub prefixes: GivenPrefixes,
}

/// Which list to print.
#[derive(Debug, Args)]
pub struct ListShow {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
    /// For programs
    #[arg(long)]
    pub json: bool,
}

/// Which list that has a name to print.
#[derive(Debug, Args)]
pub struct TierShow {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
    /// The list
    #[arg(value_name = "NAME")]
    pub name: String,
    /// For programs
    #[arg(long)]
    pub json: bool,
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
        /// The interface
        #[arg(value_name = "IFACE", value_parser = interface)]
        interface: String,
    },
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct Check {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
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
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
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
    /// How often the live view looks: 100ms to 10s
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval, conflicts_with = "once")]
    pub interval: Duration,
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DropReason {
    /// Over a limit.
    Limit,
    /// Denied.
    Deny,
    /// A new source beyond the newcomer limit, or without room in the table.
    Newcomer,
    /// No valid IP header.
    Malformed,
    /// Lost the race for a bucket too often.
    Contended,
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
    #[arg(long, value_enum, value_delimiter = ',', value_name = "REASON,...")]
    pub reason: Vec<DropReason>,
    /// End after so many
    #[arg(short = 'n', long, value_name = "N")]
    pub count: Option<NonZeroU64>,
    /// For programs: a line of JSON each
    #[arg(long)]
    pub json: bool,
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

/// Arguments of `learn`.
#[derive(Debug, Args)]
pub struct Learn {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface, required_unless_present = "capture", requires = "duration")]
    pub interface: Option<String>,
    /// How long to watch: 90s, 10m, 1h; Ctrl-C ends it early
    #[arg(long = "for", id = "duration", value_name = "DURATION", value_parser = learn_for)]
    pub duration: Option<Duration>,
    /// From a capture (pcap or pcapng) instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interface", "duration", "mode"])]
    pub capture: Option<PathBuf>,
    /// Write the configuration to this file; left out, to standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Even if that file is there
    #[arg(long, requires = "output")]
    pub force: bool,
    /// How many of the usual sources are to lose nothing, in percent
    #[arg(long, value_name = "PERCENT", default_value = "99.9", value_parser = percent)]
    pub keep: f64,
    /// Where the program runs that watches
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
}

fn learn_for(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if (Duration::from_secs(1)..=Duration::from_secs(7 * 86_400)).contains(&duration) {
        Ok(duration)
    } else {
        Err("it watches for 1s to 7days: write a duration in between, as in 10m".to_owned())
    }
}

/// A share, above 0 and at most 1.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (50.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a share of 50 to 100 percent is wanted: write a number, as in 99.9".to_owned()),
    }
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
    /// For programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// How long the traffic lasts, 1s to 60s
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub duration: Duration,
}
