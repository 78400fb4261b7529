//! Draws random settings with every key of the configuration file that has an effect in a test-run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use ipnet::IpNet;
use limiter_config::{
    Adaptive, Algorithm, Control, Direction, Exempt, Key, Limit, Lists, Malformed, Match, Mode,
    NewSources, Prefixes, Rate, Settings, Translator, Unit,
    adaptive::When,
    matches::{Destination, Hex, IpVersion, Payload, PortRange},
};

use super::{one, percent};

/// Length of the longest frame of these tests.
pub const FRAME_MAX: u64 = 1_522;

/// IPv4 addresses that lists and packets are near to.
pub const IPV4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(192, 0, 2, 7),
    Ipv4Addr::new(192, 0, 3, 255),
    Ipv4Addr::new(10, 1, 2, 3),
];
/// IPv6 addresses that lists and packets are near to.
pub const IPV6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6),
    Ipv6Addr::new(0x2001, 0xdb8, 1, 3, 0, 0, 0, 1),
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0xc000, 0x207),
];
/// Ports that ranges and packets are near to.
pub const PORTS: [u16; 12] = [0, 1, 22, 53, 67, 68, 443, 546, 547, 3_784, 5_300, u16::MAX];

const TIERS: [&str; 4] = ["bronze", "gold", "own", "silver"];

/// Random valid settings for at most `sources` sources.
pub fn settings(rng: &mut Rng, sources: u32) -> Settings {
    loop {
        let settings = any(rng, sources);
        let fits = |limit: &Limit| limit.quota(FRAME_MAX).is_ok();
        if settings.check().is_ok() && settings.limits.iter().all(fits) {
            return settings;
        }
    }
}

fn any(rng: &mut Rng, sources: u32) -> Settings {
    let settings = several(rng, sources);
    if percent(rng, 90) {
        return settings;
    }
    // One limit on all packets takes the fast path.
    let limit = Limit {
        matches: Match::default(),
        shadow: false,
        ..settings.limits[0].clone()
    };
    Settings {
        exempt: Exempt {
            established: settings.exempt.established,
            ..Exempt::default()
        },
        lists: Lists::default(),
        limits: vec![limit],
        ..settings
    }
}

fn several(rng: &mut Rng, sources: u32) -> Settings {
    let lists = lists(rng);
    let most = *one(rng, &[2, 2, 3, 4, 5, 8, 12, 32]);
    // Copies of the generator, so that these fields do not affect the others.
    let mut apart = rng.clone();
    let direction = *one(&mut apart, &[Direction::In, Direction::Out]);
    let limits = (0..rng.usize(1..=most))
        .map(|number| limit(rng, &format!("l{number}"), &lists))
        .map(|limit| match direction {
            Direction::In => limit,
            Direction::Out => delaying(&mut apart, limit),
        })
        .collect();
    Settings {
        max_sources: sources,
        new_sources: new_sources(rng),
        exempt: Exempt {
            established: percent(rng, 30),
            control: percent(rng, 35),
            vrrp: percent(&mut apart, 20),
            ospf: percent(&mut apart, 20),
            bfd: percent(&mut apart, 20),
        },
        // Uses a copy of the generator, so that this field does not affect the others.
        control: control(&mut rng.clone()),
        nat64: translators(&mut rng.clone()),
        malformed: *one(rng, &[Malformed::Drop, Malformed::Drop, Malformed::Pass]),
        shadow: percent(rng, 10),
        lists,
        limits,
        // The program at the driver, and that in the network stack in both directions.
        mode: *one(&mut rng.clone(), &[Mode::Auto, Mode::Tc]),
        direction,
        ..Settings::default()
    }
}

/// Other settings: some limits stay, some get other rates, some are removed, some are added.
pub fn changed(rng: &mut Rng, old: &Settings) -> Settings {
    loop {
        let mut new = settings(rng, old.max_sources);
        new.new_sources = old.new_sources;
        new.nat64 = old.nat64.clone();
        (new.mode, new.direction) = (old.mode, old.direction);
        if percent(rng, 40) {
            new.lists = old.lists.clone();
        }
        for limit in &mut new.limits {
            let Some(before) = old.limits.iter().find(|old| old.name == limit.name) else {
                continue;
            };
            if percent(rng, 40) {
                *limit = before.clone();
            } else if percent(rng, 70) {
                limit.key = before.key;
            }
        }
        rng.shuffle(&mut new.limits);
        let fits = |limit: &Limit| limit.quota(FRAME_MAX).is_ok();
        if new.check().is_ok() && new.limits.iter().all(fits) {
            return new;
        }
    }
}

fn new_sources(rng: &mut Rng) -> Option<NewSources> {
    let (rate, burst) = *one(
        rng,
        &[
            ("10k/s", None),
            ("5/s", None),
            ("1/m", Some(3)),
            ("7/h", Some(20)),
            // Leases of more than one token, from a bucket that refills slowly.
            ("1/s", Some(4_000)),
            ("5/m", Some(70_000)),
            ("1k/s", Some(2_500)),
        ],
    );
    let limit = NewSources {
        rate: rate.parse().unwrap(),
        burst,
        second_chance: percent(rng, 80),
    };
    percent(rng, 60).then_some(limit)
}

/// Limits on control traffic, many of them so low that a few packets exceed them.
fn control(rng: &mut Rng) -> Control {
    if percent(rng, 30) {
        return Control::default();
    }
    let total = one(rng, &["", "1/s", "3/s", "10/6s", "5/s", "10k/s"]);
    Control {
        rate: one(rng, &["1/h", "1/s", "10/6s", "100/s"]).parse().unwrap(),
        routing: one(rng, &["1/h", "1/s", "5/s"]).parse().unwrap(),
        burst: percent(rng, 50).then(|| one(rng, &["1", "3", "40"]).parse().unwrap()),
        total: total.parse().ok(),
    }
}

/// Prefixes around the addresses of packets.
fn translators(rng: &mut Rng) -> Vec<Translator> {
    let some = [
        "2001:db8::/32",
        "2001:db8:1::/48",
        "2001:db8:1:2::/64",
        "2001:db8:1:2:3:4::/96",
    ];
    let prefix = one(rng, &some).parse().unwrap();
    if rng.bool() { vec![prefix] } else { Vec::new() }
}

/// A prefix that contains one of the addresses, or is next to it.
fn prefix(rng: &mut Rng) -> IpNet {
    let net = if rng.bool() {
        let length = *one(rng, &[0, 1, 8, 16, 23, 24, 30, 31, 32, 32]);
        let flipped = u32::from(*one(rng, &IPV4)) ^ (u32::from(rng.bool()) << rng.u32(0..32));
        IpNet::new(IpAddr::V4(flipped.into()), length)
    } else {
        let length = *one(rng, &[0, 10, 32, 48, 63, 64, 65, 127, 128, 128]);
        let flipped = u128::from(*one(rng, &IPV6)) ^ (u128::from(rng.bool()) << rng.u32(0..128));
        IpNet::new(IpAddr::V6(flipped.into()), length)
    };
    net.unwrap().trunc()
}

/// Overlapping lists: the prefixes come from a small set, so that several lists share them.
fn lists(rng: &mut Rng) -> Lists {
    let few: Vec<_> = (0..rng.usize(1..12)).map(|_| prefix(rng)).collect();
    let some = |rng: &mut Rng, chance: u32| -> Prefixes {
        if !percent(rng, chance) {
            return Prefixes::new();
        }
        (0..rng.usize(1..6)).map(|_| *one(rng, &few)).collect()
    };
    let mut lists = Lists {
        allow: some(rng, 25),
        deny: some(rng, 25),
        ..Lists::default()
    };
    for tier in TIERS {
        if percent(rng, 40) {
            lists.tiers.insert(tier.to_owned(), some(rng, 85));
        }
    }
    lists
}

fn limit(rng: &mut Rng, name: &str, lists: &Lists) -> Limit {
    let by_bytes = percent(rng, 25);
    let rates = if by_bytes {
        ["64kbit", "1mbit", "9bit", "10mbit", "400gbit", "100kbit"]
    } else {
        ["1/h", "5/s", "3/s", "2/6s", "1/d", "1M/s"]
    };
    let bursts = if by_bytes {
        ["1522b", "2000b", "4kb", "64kb", "3043"]
    } else {
        ["1", "2", "3", "10", "40"]
    };
    let rate: Rate = one(rng, &rates).parse().unwrap();
    let cost = rate.unit == Unit::Packets && percent(rng, 15);
    let matches = matches(rng, lists);
    let key: Key = one(
        rng,
        &[
            "/32,/64",
            "/32,/64",
            "/24,/48",
            "/31,/65",
            "/0,/0",
            "/17,/127",
            "/32,/128",
            "interface",
            "/32,/64,destination_port",
            "interface,destination_port",
            "destination",
            "destination/31,/127,destination_port",
            "source + destination",
            "source/31,/48 + destination/30,/126",
            "source + destination/32,/127 + destination_port",
            "source/0,/10 + destination/32,/64",
            "flow",
            "flow",
            "/32,/64,vlan",
            "interface,vlan",
            "source + destination + vlan",
        ],
    )
    .parse()
    .unwrap();
    let limit = Limit {
        matches,
        key,
        burst: percent(rng, 80).then(|| one(rng, &bursts).parse().unwrap()),
        cost: cost.then(|| rng.u64(1..12)),
        algorithm: *one(
            rng,
            &[
                Algorithm::TokenBucket,
                Algorithm::TokenBucket,
                Algorithm::FixedWindow,
            ],
        ),
        hold: percent(rng, 20)
            .then(|| *one(rng, &["1s", "90s", "10m", "2h", "3days"]))
            .filter(|_| key.separates_sources())
            .map(|hold| hold.parse().unwrap()),
        shadow: percent(rng, 15),
        ..Limit::new(name, rate)
    };
    let floor = *one(rng, &["1%", "10%", "50%", "99%"]);
    let adaptive = Limit {
        adaptive: Some(Adaptive::new(
            Some(floor.parse().unwrap()),
            When {
                softnet_drops: Some(Rate::packets_per_second(100)),
                ..When::default()
            },
        )),
        ..limit.clone()
    };
    let may = limit.algorithm == Algorithm::TokenBucket
        && limit.hold.is_none()
        && adaptive.quota(FRAME_MAX).is_ok();
    if may && percent(rng, 30) {
        adaptive
    } else {
        limit
    }
}

/// The limit, which may delay packets.
fn delaying(rng: &mut Rng, limit: Limit) -> Limit {
    let may = limit.algorithm == Algorithm::TokenBucket && limit.hold.is_none();
    let max_delay =
        (may && percent(rng, 80)).then(|| one(rng, &["1ms", "1s", "5s", "5s"]).parse().unwrap());
    Limit { max_delay, ..limit }
}

fn matches(rng: &mut Rng, lists: &Lists) -> Match {
    let mut matches = fields(rng, lists);
    if percent(rng, 15) {
        let not = Match {
            established: None,
            other: false,
            ..fields(rng, lists)
        };
        matches.not = (!not.is_everything()).then(|| Box::new(not));
    }
    matches
}

fn fields(rng: &mut Rng, lists: &Lists) -> Match {
    let names: Vec<_> = lists.tiers.keys().cloned().collect();
    let lists_of = |rng: &mut Rng| -> Vec<Destination> {
        if names.is_empty() || !percent(rng, 20) {
            return Vec::new();
        }
        (0..rng.usize(1..3))
            .map(|_| Destination::List(one(rng, &names).clone()))
            .collect()
    };
    // A copy of the generator, so that prefixes do not affect the other fields.
    let mut places = rng.clone();
    let mut some_of = |rng: &mut Rng| {
        let lists = lists_of(rng);
        match percent(&mut places, 8) {
            true => destinations(&mut places, &names),
            false => lists,
        }
    };
    let protocol = percent(rng, 30).then(|| one(rng, &["tcp", "udp", "icmpv6", "sctp", "1", "47"]));
    let flags = [
        "syn",
        "syn,ack",
        "syn/syn",
        "/ack",
        "fin,psh,urg",
        "rst",
        "cwr/ece,cwr",
    ];
    // Copies of the generator, so that these fields do not affect the others.
    let mut apart = rng.clone();
    let lengths = ["0-100", "28", "40-48", "46-", "60", "61-1500", "1200-"];
    Match {
        protocol: protocol.map(|name| name.parse().unwrap()),
        destination_port: ports(rng, 25),
        source_port: ports(rng, 8),
        tcp_flags: percent(rng, 12).then(|| one(rng, &flags).parse().unwrap()),
        source: some_of(rng),
        unless: some_of(rng),
        ip_version: percent(rng, 15).then(|| *one(rng, &[IpVersion::V4, IpVersion::V6])),
        fragments: percent(rng, 15).then(|| rng.bool()),
        destination: if percent(rng, 12) {
            destinations(rng, &names)
        } else {
            Vec::new()
        },
        length: some_of_these(rng, 15, &lengths),
        ttl: some_of_these(rng, 8, &["64", "0-5", "255", "1", "64-"]),
        dscp: some_of_these(rng, 8, &["ef", "0", "8-15", "le", "63"]),
        icmp_type: some_of_these(
            rng,
            8,
            &[
                "echo-request",
                "8",
                "135",
                "redirect",
                "128",
                "packet-too-big",
            ],
        ),
        payload: percent(rng, 12).then(|| payload(rng)),
        payload_length: some_of_these(&mut apart, 12, &["0", "0-8", "1-20", "12-", "20-100"]),
        vlan: some_of_these(&mut apart, 10, &["20", "1-20", "0", "21-4095", "4095"]),
        established: percent(&mut apart, 12).then(|| apart.bool()),
        other: percent(&mut apart, 10),
        not: None,
    }
}

fn some_of_these<T: std::str::FromStr<Err: std::fmt::Debug>>(
    rng: &mut Rng,
    chance: u32,
    texts: &[&str],
) -> Vec<T> {
    if !percent(rng, chance) {
        return Vec::new();
    }
    (0..rng.usize(1..4))
        .map(|_| one(rng, texts).parse().unwrap())
        .collect()
}

/// Prefixes around the addresses of packets, and lists.
fn destinations(rng: &mut Rng, lists: &[String]) -> Vec<Destination> {
    let prefixes = [
        "192.0.2.1",
        "192.0.2.0/31",
        "192.0.2.2/31",
        "2001:db8::/32",
        "2001:db8::1",
        "::/0",
    ];
    let lists = lists.iter().map(String::as_str);
    let choices: Vec<_> = prefixes.into_iter().chain(lists).collect();
    (0..rng.usize(1..4))
        .map(|_| one(rng, &choices).parse().unwrap())
        .collect()
}

/// A pattern of the bytes that [`super::frames`] fills payloads with.
fn payload(rng: &mut Rng) -> Payload {
    let bytes = [
        "5a",
        "5a 5a 5a",
        "00",
        "01 5a",
        "5a 5a 5a 5a 5a 5a 5a 5a",
        "5b 01",
    ];
    let bytes: Hex = one(rng, &bytes).parse().unwrap();
    let mask = (0..bytes.0.len()).map(|_| *one(rng, &[0xff, 0xf0, 0, 0xfe]));
    let mask = Hex(mask.collect());
    Payload {
        offset: *one(rng, &[0, 0, 1, 7, 8, 30, 56]),
        bytes,
        mask: rng.bool().then_some(mask),
    }
}

fn ports(rng: &mut Rng, chance: u32) -> Vec<PortRange> {
    if !percent(rng, chance) {
        return Vec::new();
    }
    let range = |rng: &mut Rng| {
        let first = *one(rng, &PORTS);
        let last = first.saturating_add(*one(rng, &[0, 0, 1, 5, 900, u16::MAX]));
        PortRange::new(first, last)
    };
    let most = if rng.bool() { 2 } else { 16 };
    (0..rng.usize(1..=most)).map(|_| range(rng)).collect()
}
