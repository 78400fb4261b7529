//! Defines the configurations of these tests, and their verdicts on sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    net::IpAddr,
};

use ipnet::IpNet;
use limiter_tests::files::at_driver;

pub type Prefixes = BTreeSet<IpNet>;

/// The sources that a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    All,
    /// Sources on the tier `own`.
    Own,
    /// Sources that are not on the tier `own`.
    Others,
}

/// A limit on packets with a bucket for each source.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    pub name: String,
    /// The rate in the notation of `status`.
    pub rate: String,
    pub burst: Option<u64>,
    pub holds: Holds,
    pub shadow: bool,
}

impl Limit {
    pub fn new(name: &str, rate: &str, burst: Option<u64>, holds: Holds) -> Self {
        Self {
            name: name.to_owned(),
            rate: rate.to_owned(),
            burst,
            holds,
            shadow: false,
        }
    }

    /// Packets of a period, and its seconds.
    fn amount(&self) -> (u64, f64) {
        let (amount, period) = self.rate.split_once('/').unwrap();
        let amount = match amount.strip_suffix('k') {
            Some(thousands) => 1_000 * thousands.parse::<u64>().unwrap(),
            None => amount.parse().unwrap(),
        };
        let seconds = match period {
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            other => panic!("a period that no test has: {other}"),
        };
        (amount, seconds)
    }

    pub fn per_second(&self) -> f64 {
        let (amount, seconds) = self.amount();
        amount as f64 / seconds
    }

    /// Packets in a full bucket. The default is the packets of one period.
    pub fn burst(&self) -> u64 {
        self.burst.unwrap_or(self.amount().0)
    }

    fn toml(&self) -> String {
        let mut text = format!(
            "[[limit]]\nname = \"{}\"\nrate = \"{}\"\n",
            self.name, self.rate
        );
        if let Some(burst) = self.burst {
            writeln!(text, "burst = {burst}").unwrap();
        }
        text.push_str(match self.holds {
            Holds::All => "",
            Holds::Own => "match = { source = \"own\" }\n",
            Holds::Others => "match = { unless = \"own\" }\n",
        });
        if self.shadow {
            text.push_str("shadow = true\n");
        }
        text
    }
}

/// The verdict on a source's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Denied,
    Allowed,
    /// The limit of this name decides.
    Limited(String),
    Unlimited,
}

/// The whole configuration of an interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub max_sources: u32,
    pub shadow: bool,
    pub limits: Vec<Limit>,
    /// `allow`, `deny`, and the tier `own` if it exists.
    pub lists: BTreeMap<String, Prefixes>,
}

impl Config {
    pub fn new(limits: Vec<Limit>) -> Self {
        let lists = ["allow", "deny"].map(|name| (name.to_owned(), Prefixes::new()));
        Self {
            max_sources: 256,
            shadow: false,
            limits,
            lists: lists.into(),
        }
    }

    pub fn with(mut self, list: &str, prefixes: &[&str]) -> Self {
        let prefixes = prefixes.iter().map(|text| prefix(text)).collect();
        self.lists.insert(list.to_owned(), prefixes);
        self
    }

    pub fn limit(&self, name: &str) -> Option<&Limit> {
        self.limits.iter().find(|limit| limit.name == name)
    }

    /// The length of the longest prefix on a list that contains the source.
    fn listed(&self, list: &str, source: IpAddr) -> Option<u8> {
        let prefixes = self.lists.get(list).into_iter().flatten();
        let holding = prefixes.filter(|prefix| prefix.contains(&source));
        holding.map(IpNet::prefix_len).max()
    }

    /// The longest prefix decides, `deny` on a tie.
    pub fn fate(&self, source: IpAddr) -> Fate {
        let (deny, allow) = (self.listed("deny", source), self.listed("allow", source));
        if deny.is_some() && deny >= allow {
            return Fate::Denied;
        }
        if allow.is_some() {
            return Fate::Allowed;
        }
        let own = self.listed("own", source).is_some();
        let holding = self.limits.iter().find(|limit| match limit.holds {
            Holds::All => true,
            Holds::Own => own,
            Holds::Others => !own,
        });
        holding.map_or(Fate::Unlimited, |limit| Fate::Limited(limit.name.clone()))
    }

    fn toml(&self) -> String {
        let mut text = at_driver(format!("max_sources = {}\n", self.max_sources));
        if self.shadow {
            text.push_str("shadow = true\n");
        }
        text.push_str("[lists]\n");
        for (name, prefixes) in &self.lists {
            let prefixes: Vec<_> = prefixes.iter().map(ToString::to_string).collect();
            writeln!(text, "{name} = {prefixes:?}").unwrap();
        }
        self.limits
            .iter()
            .for_each(|limit| text.push_str(&limit.toml()));
        text
    }
}

/// Reads a prefix or an address.
pub fn prefix(text: &str) -> IpNet {
    text.parse()
        .unwrap_or_else(|_| text.parse::<IpAddr>().unwrap().into())
}

/// A configuration file: its content, or words of its refusal.
pub struct File {
    pub name: &'static str,
    pub text: String,
    pub config: Result<Config, &'static str>,
}

/// All files, except one that does not exist.
pub fn files() -> Vec<File> {
    let single = |rate, burst| Config::new(vec![Limit::new("default", rate, burst, Holds::All)]);
    let two = |rates: [&str; 2]| {
        Config::new(vec![
            Limit::new("default", rates[0], Some(3), Holds::Others),
            Limit::new("own", rates[1], Some(8), Holds::Own),
        ])
    };
    let mut shadowed = two(["40/s", "3/h"]).with("own", &["10.0.0.0/24", "2001:db8::/32"]);
    shadowed.limits.reverse();
    shadowed.limits[0].shadow = true;
    let configs = [
        ("one.toml", single("5/h", Some(4))),
        (
            "lists.toml",
            single("1k/s", Some(6))
                .with("allow", &["10.0.0.1/32"])
                .with("deny", &["10.0.0.0/30"]),
        ),
        (
            "tiers.toml",
            two(["5/h", "40/s"]).with("own", &["10.0.1.0/24"]),
        ),
        ("shadow.toml", shadowed),
        (
            "renamed.toml",
            Config::new(vec![Limit::new("all", "60/m", None, Holds::All)]),
        ),
        (
            "large.toml",
            Config {
                max_sources: 512,
                ..single("5/h", Some(4))
            },
        ),
    ];
    let sound = configs.map(|(name, config)| File {
        name,
        text: config.toml(),
        config: Ok(config),
    });
    let broken = File {
        name: "broken.toml",
        text: "[[limit]]\nname = \"default\"\nrate = \"fast\"\n".to_owned(),
        config: Err("1 mistake, and nothing was changed"),
    };
    sound.into_iter().chain([broken]).collect()
}

pub fn file(name: &str) -> Result<Config, &'static str> {
    let found = files().into_iter().find(|file| file.name == name);
    found.map_or(Err("cannot be read"), |file| file.config)
}
