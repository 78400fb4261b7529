//! Settings: one value for everything that can be configured, by flags or by a file.

use std::collections::BTreeSet;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{
    Burst, Control, Invalid, Key, Lists, Match, Rate, Unit,
    control::{CONTROL_LIMIT, CONTROL_TOTAL, is_control},
    lists::{ALLOW, DENY, TIERS_MAX},
    matches::Ports,
    quota::{self, Terms},
};

/// Name of the limit that the command line creates.
pub const DEFAULT_LIMIT: &str = "default";
/// The most limits.
pub const LIMITS_MAX: usize = 32;
/// The most ranges of ports that one limit may match on, for either end.
pub const PORTS_MAX: usize = limiter_common::abi::rules::PORTS_MAX;
/// The most characters of a name.
const NAME_LONGEST: usize = 32;
/// The most sources of a table.
pub const SOURCES_MAX: u32 = 1 << 24;

/// Settings of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The wanted XDP mode.
    pub mode: Mode,
    /// The number of sources that the table has room for.
    pub max_sources: u32,
    /// The limit on new sources; `None`: no limit.
    pub new_sources: Option<NewSources>,
    /// Packets that are exempt from the limits.
    pub exempt: Exempt,
    /// The limits on control traffic, if that is exempt.
    #[serde(default = "Control::without_total")]
    pub control: Control,
    /// Treatment of malformed IP.
    pub malformed: Malformed,
    /// Charge and count, but drop nothing.
    pub shadow: bool,
    /// The fleet whose hosts share limits and lists of its scope; `None`: this host belongs to no fleet.
    #[serde(default)]
    pub fleet: Option<String>,
    /// Names of the lists that the fleet adds prefixes to.
    #[serde(default)]
    pub fleet_lists: BTreeSet<String>,
    /// Lists of sources, which may be long. The record does not have them: they are read back from the maps.
    #[serde(skip)]
    pub lists: Lists,
    /// The limits, in the order in which they are checked.
    pub limits: Vec<Limit>,
}

impl Default for Settings {
    /// No limits yet, and the defaults of everything else.
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            max_sources: 65_536,
            new_sources: Some(NewSources::default()),
            exempt: Exempt::default(),
            control: Control::default(),
            malformed: Malformed::Drop,
            shadow: false,
            fleet: None,
            fleet_lists: BTreeSet::new(),
            lists: Lists::default(),
            limits: Vec::new(),
        }
    }
}

/// A part of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The settings as a whole.
    Whole,
    /// The limits on control traffic.
    Control,
    /// The list with this name.
    List(String),
    /// The limit with this index.
    Limit(usize),
}

/// A contradiction between settings that are each well-formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The part that the problem concerns.
    pub of: Part,
    /// The key that the problem concerns, as the configuration file names it.
    pub key: &'static str,
    /// The problem, and what to write.
    pub why: Invalid,
}

impl Problem {
    fn new(of: Part, key: &'static str, why: Invalid) -> Self {
        Self { of, key, why }
    }
}

impl Settings {
    /// All problems that do not depend on the interface.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.problems_of_the_fleet();
        let whole = self.problems_of_the_whole().into_iter();
        problems.extend(whole.map(|(key, why)| Problem::new(Part::Whole, key, why)));
        let control = self.control.problems().into_iter();
        problems.extend(control.map(|(key, why)| Problem::new(Part::Control, key, why)));
        let mut names = BTreeSet::new();
        for (index, limit) in self.limits.iter().enumerate() {
            let is_new = names.insert(&limit.name);
            let found = self.problems_among_limits(limit, is_new).into_iter();
            let found = found.chain(limit.problems());
            problems.extend(found.map(|(key, why)| Problem::new(Part::Limit(index), key, why)));
        }
        problems
    }

    /// Fails with the first problem, if there is one.
    pub fn check(&self) -> Result<(), Invalid> {
        match self.problems().into_iter().next() {
            Some(problem) => Err(problem.why),
            None => Ok(()),
        }
    }

    fn problems_of_the_whole(&self) -> Vec<(&'static str, Invalid)> {
        let mut problems = Vec::new();
        let mut found = |key, message: String| problems.push((key, Invalid::new(message)));
        let (limits, tiers) = (self.limits.len(), self.lists.tiers.len());
        if limits > LIMITS_MAX {
            let why = format!("{limits} limits are too many: write at most {LIMITS_MAX}");
            found("limit", why);
        }
        if !(1..=SOURCES_MAX).contains(&self.max_sources) {
            found(
                "max_sources",
                format!("the table holds 1 to {SOURCES_MAX} sources: write a number in between"),
            );
        }
        if tiers > TIERS_MAX {
            found(
                "lists",
                format!(
                    "{tiers} lists beside allow and deny are too many: write at most {TIERS_MAX}"
                ),
            );
        }
        for Invalid(why) in self.lists.tiers.keys().filter_map(|tier| name(tier).err()) {
            found("lists", why);
        }
        if let Some(Err(Invalid(why))) = self.new_sources.map(|new_sources| new_sources.terms()) {
            found("new_sources", why);
        }
        problems
    }

    fn problems_of_the_fleet(&self) -> Vec<Problem> {
        let fleet = self.fleet.as_deref().map(fleet_name);
        let name = fleet.and_then(Result::err);
        let name = name.map(|why| Problem::new(Part::Whole, "fleet", why));
        let is_there = |list: &str| self.lists.all().any(|(name, _)| name == list);
        let lists = self.fleet_lists.iter().filter_map(|list| {
            let why = if !is_there(list) {
                Invalid::new(format!(
                    "there is no list '{list}' for a fleet to share: write it under [lists]"
                ))
            } else if self.fleet.is_none() {
                fleetless(&format!("list '{list}'"))
            } else {
                return None;
            };
            Some(Problem::new(Part::List(list.clone()), "scope", why))
        });
        name.into_iter().chain(lists).collect()
    }

    /// Problems of a limit with the other limits, the lists and the fleet.
    fn problems_among_limits(&self, limit: &Limit, is_new: bool) -> Vec<(&'static str, Invalid)> {
        let mut problems = Vec::new();
        if let Err(why) = name(&limit.name) {
            problems.push(("name", why));
        } else if !is_new {
            let why = format!("two limits are called '{}': write another name", limit.name);
            problems.push(("name", Invalid::new(why)));
        }
        let Match { source, unless, .. } = &limit.matches;
        for (key, lists) in [("source", source), ("unless", unless)] {
            let unknown = lists.iter().filter_map(|list| self.knows(list).err());
            problems.extend(unknown.map(|why| (key, why)));
        }
        if limit.scope == Scope::Fleet && self.fleet.is_none() {
            problems.push(("scope", fleetless(&format!("limit '{}'", limit.name))));
        }
        problems
    }

    fn knows(&self, list: &str) -> Result<(), Invalid> {
        if list == ALLOW || list == DENY {
            return Err(Invalid::new(format!(
                "sources on '{list}' never come to a limit: match on a list of another name"
            )));
        }
        if self.lists.tiers.contains_key(list) {
            return Ok(());
        }
        Err(Invalid::new(format!(
            "there is no list '{list}': write it under [lists]"
        )))
    }
}

/// Checks a name. Names are words, because they appear in tables, metrics and on command lines.
pub fn name(text: &str) -> Result<(), Invalid> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > NAME_LONGEST || !text.chars().all(allowed) {
        return Err(Invalid::new(format!(
            "'{text}' is not a name: write 1 to {NAME_LONGEST} letters, digits, '-', '_' or '.'"
        )));
    }
    if is_control(text) {
        return Err(Invalid::new(format!(
            "'{text}' is the name of the built-in limit on control traffic: write another name"
        )));
    }
    Ok(())
}

/// The word for no fleet on the command line.
pub const NO_FLEET: &str = "none";

/// Checks the name of a fleet. Hosts with the same name share.
pub fn fleet_name(text: &str) -> Result<String, Invalid> {
    if text == NO_FLEET {
        return Err(Invalid::new(format!(
            "'{NO_FLEET}' stands for no fleet: write another name, or leave the fleet out"
        )));
    }
    name(text).map(|()| text.to_owned()).map_err(|_| {
        Invalid::new(format!(
            "'{}' is not the name of a fleet: write 1 to {NAME_LONGEST} letters, digits, '-', '_' or '.', and not '{CONTROL_LIMIT}' or '{CONTROL_TOTAL}'",
            text.escape_debug()
        ))
    })
}

fn fleetless(what: &str) -> Invalid {
    Invalid::new(format!(
        "{what} is to be shared by a fleet, and none is named: write fleet = \"NAME\" at the top of the file, or scope = \"host\""
    ))
}

/// Checks that the kernel accepts the name of an interface.
pub fn interface(text: &str) -> Result<String, Invalid> {
    /// `IFNAMSIZ` less the final zero.
    const LONGEST: usize = 15;
    let allowed = |c: char| !(c == '/' || c == ':' || c.is_whitespace() || c.is_control());
    if text.is_empty() || text == "." || text == ".." || !text.chars().all(allowed) {
        return Err(Invalid::new(format!(
            "'{}' is not the name of an interface: `ip link` lists those that there are",
            text.escape_debug()
        )));
    }
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Err(Invalid::new(format!(
            "'{text}' is an address where the name of an interface belongs: write the interface in front of it, as in eth0"
        )));
    }
    if text.len() > LONGEST {
        return Err(Invalid::new(format!(
            "'{text}' is too long for the name of an interface: write at most {LONGEST} characters"
        )));
    }
    Ok(text.to_owned())
}

/// A limit: matching packets are charged to one bucket for each key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The limit's name in `status` and the metrics.
    pub name: String,
    /// The packets that the limit applies to.
    pub matches: Match,
    /// The parts of a packet that select its bucket.
    pub key: Key,
    /// Refill rate of a bucket.
    pub rate: Rate,
    /// The most tokens of a bucket; `None`: it follows the rate.
    pub burst: Option<Burst>,
    /// Tokens that a packet costs; `None`: one for a packet rate, its length in bytes for a bit rate.
    pub cost: Option<u64>,
    /// The way a bucket refills.
    pub algorithm: Algorithm,
    /// Charge and count, but drop nothing.
    pub shadow: bool,
    /// The hosts whose packets are charged to the buckets.
    #[serde(default)]
    pub scope: Scope,
}

impl Limit {
    /// A limit on all packets, by source address.
    #[must_use]
    pub fn new(name: &str, rate: Rate) -> Self {
        Self {
            name: name.to_owned(),
            matches: Match::default(),
            key: Key::default(),
            rate,
            burst: None,
            cost: None,
            algorithm: Algorithm::TokenBucket,
            shadow: false,
            scope: Scope::Host,
        }
    }

    /// The burst in force on an interface whose longest frame has `frame_max` bytes.
    pub fn burst(&self, frame_max: u64) -> Result<Burst, Invalid> {
        self.burst
            .unwrap_or_else(|| self.algorithm.default_burst(&self.rate, frame_max))
            .for_rate(&self.rate)
    }

    /// The quota on an interface whose longest frame has `frame_max` bytes.
    pub fn terms(&self, frame_max: u64) -> Result<Terms, Invalid> {
        quota::terms(self, frame_max)
    }

    /// The limit's problems that do not depend on the interface.
    fn problems(&self) -> Vec<(&'static str, Invalid)> {
        let mut problems = Vec::new();
        let mut check = |key, result: Result<(), Invalid>| {
            if let Err(why) = result {
                problems.push((key, why));
            }
        };
        check("algorithm", self.algorithm_fits_the_scope());
        check("rate", self.rate_fits_the_scope());
        check("cost", self.cost_fits_the_rate());
        check("destination_port", few(&self.matches.destination_port));
        check("source_port", few(&self.matches.source_port));
        check("protocol", self.flags_need_tcp());
        let burst = self
            .burst
            .map_or(Ok(()), |burst| burst.for_rate(&self.rate).map(drop));
        let burst_fits = burst.is_ok();
        check("burst", burst);
        // Checked with the shortest frame, because the longest one depends on the interface.
        if burst_fits && self.cost_fits_the_rate().is_ok() {
            let key = if self.cost.is_some() { "cost" } else { "burst" };
            check(key, self.terms(1).map(drop));
        }
        problems
    }

    fn cost_fits_the_rate(&self) -> Result<(), Invalid> {
        match self.cost {
            Some(0) => Err(Invalid::new(
                "a cost of 0 would never be limited: write at least 1",
            )),
            Some(_) if self.rate.unit == Unit::Bytes => Err(Invalid::new(format!(
                "a fixed cost goes with a rate in packets, and {} is in bits: leave the cost out, or write another rate",
                self.rate
            ))),
            _ => Ok(()),
        }
    }

    fn algorithm_fits_the_scope(&self) -> Result<(), Invalid> {
        if self.scope == Scope::Fleet && self.algorithm == Algorithm::FixedWindow {
            return Err(Invalid::new(
                "a fleet cannot share a fixed window, which begins at another moment on each host: write \"token-bucket\", or scope = \"host\"",
            ));
        }
        Ok(())
    }

    fn rate_fits_the_scope(&self) -> Result<(), Invalid> {
        if self.scope == Scope::Fleet && self.rate.unit == Unit::Bytes {
            return Err(Invalid::new(format!(
                "a fleet shares a rate in packets, which is what hosts count of each source, and {} is in bits: write one as in 100/s, or scope = \"host\"",
                self.rate
            )));
        }
        Ok(())
    }

    fn flags_need_tcp(&self) -> Result<(), Invalid> {
        let Match {
            protocol,
            tcp_flags,
            source_port,
            destination_port,
            ..
        } = &self.matches;
        let ports = !source_port.0.is_empty() || !destination_port.0.is_empty();
        match protocol {
            Some(protocol) if tcp_flags.is_some() && *protocol != super::matches::Protocol::TCP => {
                Err(Invalid::new(format!(
                    "tcp_flags with protocol {protocol} never match: write protocol = \"tcp\", or leave it out"
                )))
            }
            Some(protocol) if ports && !protocol.has_ports() => Err(Invalid::new(format!(
                "protocol {protocol} has no ports: leave the ports out, or write tcp or udp"
            ))),
            _ => Ok(()),
        }
    }
}

fn few(ports: &Ports) -> Result<(), Invalid> {
    let count = ports.0.len();
    if count > PORTS_MAX {
        return Err(Invalid::new(format!(
            "{count} ports or ranges are too many for one limit: write at most {PORTS_MAX}, or two limits"
        )));
    }
    Ok(())
}

/// The hosts whose packets count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Those of this host.
    #[default]
    Host,
    /// Those of all hosts of the fleet.
    Fleet,
}

impl Scope {
    /// The name in files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Fleet => "fleet",
        }
    }
}

/// The way a bucket refills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// All the time.
    #[default]
    TokenBucket,
    /// At the beginning of each period; what is left over is kept, up to the burst.
    FixedWindow,
}

impl Algorithm {
    /// The name in files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::FixedWindow => "fixed-window",
        }
    }

    /// The burst of a rate without one: the tokens of one second, or of one window.
    fn default_burst(self, rate: &Rate, frame_max: u64) -> Burst {
        match self {
            Self::TokenBucket => Burst::default_for(rate, frame_max),
            Self::FixedWindow => Burst {
                tokens: rate.tokens_per_period(),
                unit: Some(rate.unit),
            },
        }
    }
}

/// A kind of packets that may be exempt from the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Exemption {
    /// Packets of connections of the host's own sockets.
    Established,
    /// ARP, neighbour discovery and DHCP: they have a limit of their own.
    Control,
}

/// The packets that are exempt from the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exempt {
    /// Whether packets of connections of the host's own sockets pass instead of being dropped.
    pub established: bool,
    /// Whether ARP, neighbour discovery and DHCP have their own limits.
    pub control: bool,
}

impl Exempt {
    /// Exempts all kinds in `named`.
    #[must_use]
    pub fn new(named: &[Exemption]) -> Self {
        Self {
            established: named.contains(&Exemption::Established),
            control: named.contains(&Exemption::Control),
        }
    }

    /// The names of the exempt kinds, as in files.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        [("established", self.established), ("control", self.control)]
            .into_iter()
            .filter_map(|(name, on)| on.then_some(name))
            .collect()
    }
}

/// The limit on new sources in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSources {
    /// New sources per period.
    pub rate: Rate,
    /// The most new sources at once; `None`: those of 6.5536 seconds at the rate.
    pub burst: Option<u64>,
}

impl Default for NewSources {
    /// 10,000 per second, 65,536 at once.
    fn default() -> Self {
        Self {
            rate: Rate::packets_per_second(10_000),
            burst: None,
        }
    }
}

impl NewSources {
    /// The burst in force.
    #[must_use]
    pub fn burst(&self) -> u64 {
        self.burst.unwrap_or_else(|| {
            let tokens = u128::from(self.rate.tokens_per_period()) * 6_553_600_000;
            u64::try_from(tokens / u128::from(self.rate.period_ns))
                .unwrap_or(u64::MAX)
                .max(1)
        })
    }

    /// The quota of the limit on new sources.
    pub fn terms(&self) -> Result<Terms, Invalid> {
        if self.rate.unit == Unit::Bytes {
            return Err(Invalid::new(format!(
                "new sources come by number, and {} is in bits: write a rate as in 10k/s, or none",
                self.rate
            )));
        }
        if self.burst == Some(0) {
            return Err(Invalid::new(
                "a burst of 0 would take in no new source: write at least 1, or leave it out",
            ));
        }
        let limit = Limit {
            burst: Some(Burst {
                tokens: self.burst(),
                unit: None,
            }),
            ..Limit::new("new_sources", self.rate)
        };
        limit.terms(1)
    }
}

/// Treatment of malformed IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Malformed {
    /// Dropped and counted.
    #[default]
    Drop,
    /// Passed and counted.
    Pass,
}

impl Malformed {
    /// The name in files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Pass => "pass",
        }
    }
}

/// The wanted XDP mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Native where the driver can, else generic, and says so.
    #[default]
    Auto,
    /// In the driver, before the kernel has spent anything on the packet.
    Native,
    /// In the network stack: works everywhere, and is several times slower.
    Generic,
}

impl Mode {
    /// The name in files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}
