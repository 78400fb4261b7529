//! Draws random steps, most of which have an effect.

use fastrand::Rng;
use limiter_tests::random::{one, percent};

use super::expected::{Attached, Model};

/// Steps with their weights. A word that begins with `$` stands for a random value: see [`Draw::value`].
const STEPS: [(u32, &str); 36] = [
    (560, "send $FAR $SOURCE $COUNT"),
    (80, "sleep $MILLISECONDS"),
    (8, "create $DEVICE $NAME $INDEX"),
    (4, "delete $DEVICE"),
    (50, "rename $DEVICE $NAME"),
    (
        22,
        "limiter attach $BARE --mode xdp --max-sources 256 --rate $RATE --burst $BURST",
    ),
    (
        8,
        "limiter attach $BARE --mode xdp --max-sources 256 --rate $RATE --burst $BURST --allow $PREFIX --deny $PREFIX",
    ),
    (
        5,
        "limiter attach $BARE --mode xdp --max-sources 256 --rate $RATE --burst $BURST --deny $PREFIX --shadow",
    ),
    (
        3,
        "limiter attach $BARE $OTHER --mode xdp --max-sources 256 --rate $RATE",
    ),
    (
        2,
        "limiter attach $BARE --mode xdp --max-sources 256 --rate $RATE --burst 1kb",
    ),
    (12, "limiter attach $BARE --config $FILE"),
    (4, "limiter attach $BARE $OTHER --config $FILE"),
    (6, "limiter attach $HELD --config $FILE"),
    (12, "limiter attach $HELD --config $FILE --or-reload"),
    (12, "limiter attach $BARE --config $FILE --or-reload"),
    (8, "limiter set $HELD $LIMIT --rate $RATE"),
    (8, "limiter set $HELD $LIMIT --burst $BURST"),
    (3, "limiter set $HELD $LIMIT --rate $RATE --burst $BURST"),
    (1, "limiter set $HELD $LIMIT --rate 5/h --burst 1kb"),
    (1, "limiter set $HELD $LIMIT --burst 1kb"),
    (3, "limiter set $HELD $LIMIT --shadow on"),
    (3, "limiter set $HELD $LIMIT --shadow off"),
    (1, "limiter set $HELD --rate $RATE"),
    (18, "limiter reload $HELD --config $FILE"),
    (8, "limiter reload $HELD"),
    (12, "limiter $LIST add $HELD $PREFIX $PREFIX"),
    (12, "limiter tier add $HELD own $PREFIX"),
    (4, "limiter $LIST replace $HELD $PREFIX"),
    (3, "limiter tier replace $HELD own $PREFIX"),
    (14, "limiter $LIST remove $HELD $LISTED"),
    (8, "limiter tier remove $HELD own $LISTED"),
    (3, "limiter $LIST add $HELD 10.0.0.1/24"),
    (28, "limiter reset $HELD $WHOM"),
    (17, "limiter detach $NAME"),
    (1, "limiter detach --all"),
    (24, "limiter status --json"),
];

const NAMES: [&str; 4] = ["dmz", "lan", "vlan.7", "wan"];
const SOURCES: [&str; 6] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.1.1",
    "2001:db8::1",
    // This address is in the /64 of the one before.
    "2001:db8::2",
    "2001:db8:0:1::1",
];
const PREFIXES: [&str; 8] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.0/30",
    "10.0.0.0/24",
    "10.0.1.0/24",
    "2001:db8::1",
    "2001:db8::/64",
    "2001:db8::/32",
];
const RATES: [&str; 6] = ["3/h", "5/h", "60/m", "1/s", "40/s", "1k/s"];
const BURSTS: [&str; 7] = ["1", "2", "3", "5", "8", "13", "40"];
const FILES: [&str; 5] = [
    "one.toml",
    "lists.toml",
    "tiers.toml",
    "shadow.toml",
    "renamed.toml",
];
const OTHER_FILES: [&str; 3] = ["large.toml", "broken.toml", "missing.toml"];
/// Maximum number of interfaces.
const DEVICES: u8 = 3;

/// The next step.
pub fn next(rng: &mut Rng, model: &Model) -> String {
    let total = STEPS.iter().map(|(weight, _)| weight).sum();
    let mut left = rng.u32(0..total);
    let mut step = "create $DEVICE $NAME $INDEX";
    if model.devices.len() >= 2 || percent(rng, 50) {
        for (weight, text) in STEPS {
            step = text;
            if left < weight {
                break;
            }
            left -= weight;
        }
    }
    let name = String::new();
    let mut draw = Draw { rng, model, name };
    let words = step.split(' ').map(|word| match word.strip_prefix('$') {
        Some(kind) => draw.value(kind),
        None => word.to_owned(),
    });
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// The choices of one step.
struct Draw<'a> {
    rng: &'a mut Rng,
    model: &'a Model,
    /// The interface name that was drawn last.
    name: String,
}

impl Draw<'_> {
    fn value(&mut self, kind: &str) -> String {
        let words: &[&str] = match kind {
            "FAR" => return self.far().to_string(),
            "DEVICE" => return self.rng.u8(0..DEVICES).to_string(),
            "INDEX" => return self.rng.u32(10..14).to_string(),
            "MILLISECONDS" => return self.rng.u32(1..=8).to_string(),
            // A name, mostly of an interface without an attachment, or of an attachment.
            "BARE" => return self.named(false),
            "HELD" => return self.named(true),
            "NAME" => return (*one(self.rng, &NAMES)).to_owned(),
            "OTHER" => {
                let others: Vec<_> = NAMES.iter().filter(|name| **name != self.name).collect();
                return (**one(self.rng, &others)).to_owned();
            }
            "LIMIT" => return self.limit().to_owned(),
            "LISTED" => return self.listed(),
            "WHOM" if percent(self.rng, 30) => return "--all".to_owned(),
            "FILE" if percent(self.rng, 15) => &OTHER_FILES,
            "SOURCE" | "WHOM" => &SOURCES,
            "COUNT" => &["1", "1", "2", "3", "5", "9", "20"],
            "RATE" => &RATES,
            "BURST" => &BURSTS,
            "PREFIX" => &PREFIXES,
            "FILE" => &FILES,
            "LIST" => &["allow", "deny"],
            other => panic!("no value: {other}"),
        };
        (*one(self.rng, words)).to_owned()
    }

    /// Mostly an interface with an attachment.
    fn far(&mut self) -> u8 {
        let attached = self.model.attached.values();
        let attached: Vec<u8> = attached
            .filter_map(|attachment| attachment.device)
            .collect();
        if attached.is_empty() || percent(self.rng, 5) {
            return self.rng.u8(0..DEVICES);
        }
        *one(self.rng, &attached)
    }

    fn named(&mut self, is_attached: bool) -> String {
        let mut known: Vec<String> = self.model.names().into_iter().collect();
        known.retain(|name| self.model.of_name(name).is_some() == is_attached);
        self.name = if known.is_empty() || percent(self.rng, 12) {
            (*one(self.rng, &NAMES)).to_owned()
        } else {
            one(self.rng, &known).clone()
        };
        self.name.clone()
    }

    /// The attachment of the last name.
    fn attached(&self) -> Option<&Attached> {
        let found = self.model.of_name(&self.name)?;
        self.model.attached.get(found)
    }

    /// Mostly names a limit if there are several.
    fn limit(&mut self) -> &'static str {
        let limits = self.attached().map_or(0, |found| found.config.limits.len());
        if percent(self.rng, if limits > 1 { 85 } else { 10 }) {
            return ["--limit default", "--limit own", "--limit own"][self.rng.usize(0..3)];
        }
        ""
    }

    /// Mostly a prefix on a list.
    fn listed(&mut self) -> String {
        let lists = self.attached().map(|found| found.config.lists.values());
        let listed: Vec<String> = lists
            .into_iter()
            .flatten()
            .flatten()
            .map(ToString::to_string)
            .collect();
        if listed.is_empty() || percent(self.rng, 20) {
            return (*one(self.rng, &PREFIXES)).to_owned();
        }
        one(self.rng, &listed).clone()
    }
}
