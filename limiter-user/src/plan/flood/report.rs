//! The explanation of a flood, for programs and people.

use std::net::IpAddr;

use limiter_config::{Rate, file};
use serde::Serialize;

use super::{
    candidates::{Excess, conditions},
    condition::{Condition, Values},
    gain::Scale,
    guard::Guard,
    picture::Picture,
    sample::Sample,
    search::{Bounds, COST_MAX, Found, LOOSE_MAX, Outcome, Search, hold},
    shape::Field,
};

/// The fewest ordinary packets with which the cost of a rule can be told.
const ORDINARY_MIN: usize = 500;
/// The fewest packets of a sample in which a pattern is sought.
const PACKETS_MIN: usize = 200;
/// Traffic that is at most so much above the ordinary one is no flood.
const EXCESS_MIN: f64 = 0.2;
/// Values that are shown: the most, and how much more of the packets have them than of ordinary ones.
const SHARES_MAX: usize = 12;
const SHARE_MIN: f64 = 0.1;
/// Share of a rule's packets that have one destination, if that is to stand for all.
const ONE: f64 = 0.999;
/// A limit admits so many times the ordinary packets that it matches, and at least so many a second.
const MARGIN: f64 = 2.0;
const RATE_MIN: u64 = 10;
/// The time of the trial that the printed command begins.
const TRIAL: &str = "10m";

/// The result of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// At least one pattern.
    Pattern,
    /// A pattern that also matches too many ordinary packets.
    Costly,
    /// No pattern.
    NoPattern,
    /// The traffic is ordinary.
    NoFlood,
    /// There is no picture of ordinary traffic, or it has too few packets.
    NoPicture,
    /// Too few packets came.
    TooFew,
}

/// The output of `explain --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Explanation {
    /// Name of the interface; null for a capture.
    pub interface: Option<String>,
    /// The result.
    pub answer: Answer,
    /// The answer and the next step, in words.
    pub advice: String,
    /// Seconds of the sample.
    pub seconds: f64,
    /// Packets per second now, estimated from the sample.
    pub packets_per_second: f64,
    /// Share of them that was dropped, from 0 to 1; of a capture 0.
    pub dropped: f64,
    /// Share of them that no limit decides about: of connections, control traffic, and of the allow list.
    pub exempt: f64,
    /// Packets in the sample that limits decide about.
    pub sampled: u64,
    /// Packets per second in ordinary traffic; null without a picture.
    pub ordinary_per_second: Option<f64>,
    /// Ordinary packets in the picture that limits decide about.
    pub ordinary_packets: u64,
    /// Values that most of the packets now have, the greatest difference first.
    pub shares: Vec<Share>,
    /// The patterns of the excess, the one with most of it first.
    pub patterns: Vec<Pattern>,
    /// The best pattern, if it matches too many ordinary packets.
    pub costly: Option<Pattern>,
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Share {
    /// The field, as a key of `match`; or `country` or `asn` of the source, if a database knows it.
    pub field: &'static str,
    /// The value.
    pub value: String,
    /// Share of the packets now, from 0 to 1.
    pub now: f64,
    /// Share of ordinary packets; null without a picture.
    pub before: Option<f64>,
}

/// A pattern of packets, with the limit that holds them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pattern {
    /// `match` as in a file.
    #[serde(rename = "match")]
    pub matches: String,
    /// Share of the packets above the ordinary rate that it matches, from 0 to 1, without those of the patterns before.
    pub of_excess: f64,
    /// Share of ordinary packets that it matches.
    pub of_ordinary: f64,
    /// Number of ordinary packets of the picture that it matches.
    pub ordinary_packets: u64,
    /// Rate of the limit.
    pub rate: String,
    /// The limit as in a file.
    pub limit: String,
    /// The command that tries the limit.
    pub command: String,
    /// Name of the limit that has this match already; null if there is none.
    pub held_by: Option<String>,
}

/// The subject of an explanation.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Name of the interface; none for a capture.
    pub interface: Option<&'a str>,
    /// Seconds of the sample.
    pub seconds: f64,
    /// Names and matches of the interface's limits.
    pub limits: &'a [(String, String)],
    /// Protected packets.
    pub guard: &'a Guard,
    /// True: patterns with a higher cost are offered.
    pub loose: bool,
    /// True: no pattern is about the payload.
    pub without_payload: bool,
}

/// Explains a sample by the picture of ordinary traffic.
pub fn explain(asked: &Asked<'_>, sample: &Sample, picture: Option<&Picture>) -> Explanation {
    let empty = Picture::new(0);
    let known = picture.unwrap_or(&empty);
    let refuses = |conditions: &[Condition]| asked.guard.refuses(conditions);
    let bounds = Bounds {
        loose: asked.loose,
        without_payload: asked.without_payload,
        refuses: &refuses,
    };
    let search = Search::new(sample, asked.seconds, known, &bounds);
    let rates = search.rates();
    let none = if sample.packets().len() < PACKETS_MIN {
        Some(Answer::TooFew)
    } else if known.shapes.len() < ORDINARY_MIN {
        Some(Answer::NoPicture)
    } else if rates.excess() < EXCESS_MIN * rates.before {
        Some(Answer::NoFlood)
    } else {
        None
    };
    let outcome = match none {
        Some(_) => Outcome::default(),
        None => search.run(),
    };
    let answer = none.unwrap_or(match (outcome.rules.is_empty(), &outcome.costly) {
        (false, _) => Answer::Pattern,
        (true, Some(_)) => Answer::Costly,
        (true, None) => Answer::NoPattern,
    });
    let mut names: Vec<_> = asked.limits.iter().map(|(name, _)| name.clone()).collect();
    let mut pattern = |found: &Found| pattern(asked, sample, known, found, &mut names);
    let patterns: Vec<_> = outcome.rules.iter().map(&mut pattern).collect();
    let costly = outcome.costly.as_ref().map(pattern);
    let share = |part: f64| part / sample.all.max(f64::MIN_POSITIVE);
    let held = patterns.iter().all(|pattern| pattern.held_by.is_some());
    Explanation {
        interface: asked.interface.map(str::to_owned),
        answer,
        advice: advice(asked, answer, held, sample),
        seconds: asked.seconds,
        packets_per_second: sample.all / asked.seconds.max(1e-3),
        dropped: share(sample.dropped),
        exempt: share(sample.exempt),
        sampled: sample.packets().len() as u64,
        ordinary_per_second: picture.map(|picture| picture.packets_per_second),
        ordinary_packets: known.shapes.len() as u64,
        shares: shares(asked, sample, picture),
        patterns,
        costly,
    }
}

/// The pattern of a rule.
fn pattern(
    asked: &Asked<'_>,
    sample: &Sample,
    picture: &Picture,
    found: &Found,
    names: &mut Vec<String>,
) -> Pattern {
    let destination = only_destination(sample, found);
    let matches = asked.guard.matches(&found.conditions, destination);
    let matches = file::matches(&matches);
    let mut limits = asked.limits.iter();
    let held_by = limits.find(|(_, held)| *held == matches);
    let held_by = held_by.map(|(name, _)| name.clone());
    let rate = rate(found.ordinary_per_second).to_string();
    let name = free_name(names);
    let interface = asked.interface.unwrap_or("IFACE");
    let limit = format!(
        "[[limit]]\nname = \"{name}\"\nmatch = {matches}\nkey = \"interface\"\nrate = \"{rate}\"\n"
    );
    let command = format!(
        "limiter limit {interface} {name} --match '{matches}' --rate {rate} --key interface --try {TRIAL}"
    );
    names.push(name);
    Pattern {
        matches,
        of_excess: found.of_excess,
        of_ordinary: found.ordinary as f64 / picture.shapes.len().max(1) as f64,
        ordinary_packets: found.ordinary,
        rate,
        limit,
        command,
        held_by,
    }
}

/// The only destination of a rule's packets.
fn only_destination(sample: &Sample, found: &Found) -> Option<IpAddr> {
    let matched = sample.packets().iter();
    let matched = matched.filter(|(packet, _)| hold(&found.conditions, &packet.shape));
    let matched: Vec<_> = matched.map(|(packet, _)| packet.destination).collect();
    let first = *matched.first()?;
    let same = matched.iter().filter(|address| **address == first).count();
    (same as f64 >= ONE * matched.len() as f64).then_some(first)
}

/// A rate that admits the ordinary packets that a rule matches: one, two or five times a power of ten.
fn rate(ordinary_per_second: f64) -> Rate {
    let needed = MARGIN * ordinary_per_second;
    let powers = (1..9).map(|power| 10_u64.pow(power));
    let mut rates = powers.flat_map(|power| [1, 2, 5].map(|digit| digit * power));
    let enough = rates.find(|rate| *rate as f64 >= needed);
    Rate::packets_per_second(enough.unwrap_or(1_000_000_000).max(RATE_MIN))
}

/// A name that no limit has.
fn free_name(names: &[String]) -> String {
    let numbered = (2..).map(|number| format!("flood-{number}"));
    let mut all = std::iter::once("flood".to_owned()).chain(numbered);
    all.find(|name| !names.contains(name)).unwrap_or_default()
}

/// The values that most packets have.
fn shares(asked: &Asked<'_>, sample: &Sample, picture: Option<&Picture>) -> Vec<Share> {
    let weight: f64 = sample.packets().iter().map(|(_, weight)| weight).sum();
    let now: Vec<_> = sample.packets().iter().collect();
    let scale = Scale {
        excess: weight,
        ordinary: 0.0,
        per_weight: 1.0,
        each: 0.0,
    };
    let excess = Excess {
        now: &now,
        before: &[],
        scale,
    };
    let mut shares = Vec::new();
    for field in Field::ALL {
        if asked.without_payload && field.window().is_some() {
            continue;
        }
        let has_field = |picture: &&Picture| {
            let mut shapes = picture.shapes.iter();
            !field.is_of_places() || shapes.any(|shape| shape.value(field) != 0)
        };
        let picture = picture.filter(has_field);
        for condition in conditions(&excess, field) {
            // The first mask of flags shows the others too.
            let is_value = match &condition.values {
                Values::Ranges(ranges) => matches!(&ranges[..], [(first, last)] if first == last),
                Values::Flags { mask, .. } => *mask == 0x3f,
                _ => condition.count() == 1,
            };
            if !is_value {
                continue;
            }
            let now = excess.now.iter();
            let now = now.filter(|(packet, _)| condition.holds(&packet.shape));
            let now: f64 = now.map(|(_, weight)| weight).sum();
            let before = picture.map(|picture| {
                let shapes = picture.shapes.iter();
                let same = shapes.filter(|shape| condition.holds(shape)).count();
                same as f64 / picture.shapes.len().max(1) as f64
            });
            shares.push(Share {
                field: field.name(),
                value: condition.shown(),
                now: now / weight.max(f64::MIN_POSITIVE),
                before,
            });
        }
    }
    let difference = |share: &Share| share.now - share.before.unwrap_or(0.0);
    shares.retain(|share| difference(share) >= SHARE_MIN);
    shares.sort_by(|share, other| difference(other).total_cmp(&difference(share)));
    shares.truncate(SHARES_MAX);
    shares
}

/// The answer and the next step, in words.
fn advice(asked: &Asked<'_>, answer: Answer, held: bool, sample: &Sample) -> String {
    let interface = asked.interface.unwrap_or("IFACE");
    let [cost, loose] = [COST_MAX, LOOSE_MAX].map(|share| format!("{:.0} %", 100.0 * share));
    match answer {
        Answer::Pattern if held => {
            format!("limits hold it already: `limiter status {interface}` shows what they drop")
        }
        Answer::Pattern => format!(
            "the command tries the limit for ten minutes; `limiter keep {interface}` makes it last, `limiter keep {interface} --revert` undoes it"
        ),
        Answer::Costly => format!(
            "the pattern also matches more than {cost} of ordinary packets: --loose offers patterns up to {loose}"
        ),
        Answer::NoPattern => no_pattern(sample),
        Answer::NoFlood => {
            "the traffic is not above the ordinary rate: nothing to explain".to_owned()
        }
        Answer::NoPicture => format!(
            "no pattern is offered without a picture of at least {ORDINARY_MIN} ordinary packets: `limiter explain {interface} --save` makes one at an ordinary time, --ordinary FILE reads a capture. Meanwhile, the table shows what most packets have: `limiter limit {interface} flood --match '{{ … }}' --rate … --key interface --try {TRIAL}` tries a limit on it"
        ),
        Answer::TooFew => format!(
            "fewer than {PACKETS_MIN} packets came that limits decide about: watch for longer with --for"
        ),
    }
}

/// The advice for a flood without a pattern: SYN cookies, if most of its packets are SYNs.
fn no_pattern(sample: &Sample) -> String {
    let weight: f64 = sample.packets().iter().map(|(_, weight)| weight).sum();
    let requests = sample.packets().iter();
    let requests = requests
        .filter(|(packet, _)| packet.shape.value(Field::Flags) & !0x3f == 0)
        .filter(|(packet, _)| packet.shape.value(Field::Flags) & 0x12 == 2);
    let requests: f64 = requests.map(|(_, weight)| weight).sum();
    let consider = match requests > weight / 2.0 {
        true => "a limit with proof = \"syn-cookie\"",
        false => "a limit for each source, a lower new_sources, or a filter upstream",
    };
    format!("random sources, ordinary packets: nothing separates them; consider {consider}")
}
