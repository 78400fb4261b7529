//! Strategies that draw settings of all kinds.

use std::{cmp::Ordering, collections::BTreeSet};

use limiter_common::abi::rules::PORTS_MAX;
use limiter_user::config::{
    Algorithm, Burst, Control, Exempt, Key, Limit, Lists, Malformed, Match, Mode, NewSources, Rate,
    Scope, Settings, Unit, key,
    lists::Prefixes,
    matches::{IpVersion, Lengths, PortRange, Ports, Protocol, TcpFlags},
    names, settings,
};
use proptest::{
    collection::{btree_map, btree_set, vec},
    option,
    prelude::*,
    sample::{Index, select},
};

fn names() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_.-]{1,32}".prop_filter("a name", |name| {
        names::name(name).is_ok() && name != "allow" && name != "deny"
    })
}

fn prefixes() -> impl Strategy<Value = Prefixes> {
    let ipv4 = (any::<[u8; 4]>(), 0..=32_u8)
        .prop_map(|(address, bits)| ipnet::IpNet::new(address.into(), bits));
    let ipv6 = (any::<[u8; 16]>(), 0..=128_u8)
        .prop_map(|(address, bits)| ipnet::IpNet::new(address.into(), bits));
    let prefix = prop_oneof![ipv4, ipv6].prop_map(|prefix| prefix.expect("not too long").trunc());
    btree_set(prefix, 0..8)
}

fn lists() -> impl Strategy<Value = Lists> {
    let tiers = btree_map(names(), prefixes(), 0..4);
    (prefixes(), prefixes(), tiers).prop_map(|(allow, deny, tiers)| Lists { allow, deny, tiers })
}

fn packet_rates() -> impl Strategy<Value = Rate> {
    (
        prop_oneof![1..=1_000_u64, 1..=1_000_000_000_u64],
        prop_oneof![Just(1), Just(60), 1..=400_000_u64],
    )
        .prop_map(|(amount, seconds)| Rate {
            amount,
            period_ns: seconds * 1_000_000_000,
            unit: Unit::Packets,
        })
}

fn rates() -> impl Strategy<Value = Rate> {
    let bits = prop_oneof![8..=100_000_u64, 8..=1_000_000_000_000_u64];
    let bits = bits.prop_map(|amount| Rate {
        amount,
        period_ns: 1_000_000_000,
        unit: Unit::Bytes,
    });
    prop_oneof![packet_rates(), bits]
}

fn ports() -> impl Strategy<Value = Ports> {
    let range = prop_oneof![
        any::<u16>().prop_map(|port| (port, port)),
        any::<(u16, u16)>()
    ];
    let range = range.prop_map(|(one, other)| PortRange {
        first: one.min(other),
        last: one.max(other),
    });
    prop_oneof![
        Just(Ports::default()),
        vec(range, 1..=PORTS_MAX).prop_map(Ports)
    ]
}

fn flags() -> impl Strategy<Value = TcpFlags> {
    (1..=255_u8, any::<u8>()).prop_map(|(looked_at, set)| TcpFlags {
        set: set & looked_at,
        looked_at,
    })
}

fn lengths() -> impl Strategy<Value = Lengths> {
    let length = || 0..=65_575_u32;
    (length(), length()).prop_map(|(one, other)| Lengths {
        first: one.min(other),
        last: one.max(other),
    })
}

/// Names of lists are filled in later, because the lists must exist.
fn matches() -> impl Strategy<Value = Match> {
    (
        option::of(prop_oneof![any::<u8>(), select(&[6, 17][..])]),
        ports(),
        ports(),
        option::of(flags()),
        option::of(select(&[IpVersion::V4, IpVersion::V6][..])),
        option::of(any::<bool>()),
        option::of(lengths()),
    )
        .prop_map(
            |(
                protocol,
                destination_port,
                source_port,
                tcp_flags,
                ip_version,
                fragments,
                length,
            )| {
                let protocol = protocol.map(Protocol);
                let has_ports = protocol.is_none_or(Protocol::has_ports);
                let ports = |ports| if has_ports { ports } else { Ports::default() };
                Match {
                    destination_port: ports(destination_port),
                    source_port: ports(source_port),
                    tcp_flags: tcp_flags
                        .filter(|_| protocol.is_none_or(|protocol| protocol == Protocol::TCP)),
                    protocol,
                    ip_version,
                    fragments,
                    length,
                    ..Match::default()
                }
            },
        )
}

fn keys() -> impl Strategy<Value = Key> {
    let prefix =
        (0..=32_u8, 0..=128_u8).prop_map(|(ipv4, ipv6)| key::Source::Prefix { ipv4, ipv6 });
    let source = prop_oneof![
        Just(Key::default().source),
        Just(key::Source::Interface),
        prefix
    ];
    (source, any::<bool>()).prop_map(|(source, by_port)| Key { source, by_port })
}

fn limits() -> impl Strategy<Value = Limit> {
    let burst = option::of((prop_oneof![1..=100_u64, 1..=1_000_000_u64], any::<bool>()));
    let quota = (
        rates(),
        burst,
        option::of(1..=1_000_u64),
        select(&[Algorithm::TokenBucket, Algorithm::FixedWindow][..]),
    );
    let quota = quota.prop_map(|(rate, burst, cost, algorithm)| Limit {
        burst: burst.map(|(tokens, bare)| Burst {
            tokens,
            unit: (!bare).then_some(rate.unit),
        }),
        cost: cost.filter(|_| rate.unit == Unit::Packets),
        algorithm,
        ..Limit::new("", rate)
    });
    let quota = quota.prop_filter("can be had", |limit| limit.quota(1).is_ok());
    let switches = any::<[bool; 2]>();
    (quota, matches(), keys(), switches).prop_map(|(quota, matches, key, [shadow, shared])| {
        let can_be = quota.rate.unit == Unit::Packets && quota.algorithm == Algorithm::TokenBucket;
        Limit {
            matches,
            key,
            shadow,
            scope: if shared && can_be {
                Scope::Fleet
            } else {
                Scope::Host
            },
            ..quota
        }
    })
}

fn new_sources() -> impl Strategy<Value = NewSources> {
    let burst = option::of(1..=1_000_000_u64);
    let new_sources = (packet_rates(), burst).prop_map(|(rate, burst)| NewSources { rate, burst });
    new_sources.prop_filter("can be had", |new_sources| new_sources.quota().is_ok())
}

/// Draws names and matches for limits that have neither.
fn with_names(
    limits: Vec<Limit>,
    names: BTreeSet<String>,
    lists: &Lists,
    drawn: &[(Index, Index)],
) -> Vec<Limit> {
    let tiers: Vec<_> = lists.tiers.keys().cloned().collect();
    let some = |index: &Index| tiers[..index.index(tiers.len() + 1)].to_vec();
    let named = limits.into_iter().zip(names).zip(drawn.iter().cycle());
    let named = named.map(|((limit, name), (source, unless))| {
        let matches = Match {
            source: some(source),
            unless: some(unless),
            ..limit.matches
        };
        Limit {
            name,
            matches,
            ..limit
        }
    });
    named.collect()
}

/// Adds a fleet and its shared lists; without a fleet, nothing is shared.
fn in_fleet(settings: Settings, fleet: Option<String>, shared: u32) -> Settings {
    if fleet.is_none() {
        let limits = settings.limits.into_iter();
        let scope = Scope::Host;
        let limits = limits.map(|limit| Limit { scope, ..limit }).collect();
        return Settings { limits, ..settings };
    }
    let names = settings.lists.all().map(|(name, _)| name.to_owned());
    let is_shared = |(bit, _): &(u32, String)| shared >> bit & 1 != 0;
    let shared = (0..).zip(names).filter(is_shared);
    Settings {
        fleet_lists: shared.map(|(_, name)| name).collect(),
        fleet,
        ..settings
    }
}

/// A total is at least the rate of one source.
fn controls() -> impl Strategy<Value = Control> {
    let drawn = (
        packet_rates(),
        option::of(1..=1_000_u64),
        option::of(packet_rates()),
    );
    let control = drawn.prop_map(|(rate, burst, total)| Control {
        rate,
        burst: burst.map(|tokens| Burst { tokens, unit: None }),
        total: total.map(|total| match total.compare(&rate) {
            Some(Ordering::Less) => rate,
            _ => total,
        }),
    });
    let sound = |control: &Control| control.limits().iter().all(|limit| limit.quota(1).is_ok());
    prop_oneof![
        Just(Control::default()),
        control.prop_filter("sound", sound)
    ]
}

pub fn settings() -> impl Strategy<Value = Settings> {
    let limits = (
        vec(limits(), 0..5),
        btree_set(names(), 5),
        vec(any::<(Index, Index)>(), 5),
    );
    let plain = (
        select(&[Mode::Auto, Mode::Native, Mode::Generic][..]),
        1..=settings::SOURCES_MAX,
        option::of(new_sources()),
        controls(),
        any::<[bool; 4]>(),
    );
    let drawn = (limits, lists(), plain).prop_map(|((limits, names, drawn), lists, plain)| {
        let (mode, max_sources, new_sources, of_control, switches) = plain;
        let [established, control, passes, shadow] = switches;
        Settings {
            mode,
            max_sources,
            new_sources,
            exempt: Exempt {
                established,
                control,
            },
            control: if control {
                of_control
            } else {
                Control::default()
            },
            malformed: if passes {
                Malformed::Pass
            } else {
                Malformed::Drop
            },
            shadow,
            limits: with_names(limits, names, &lists, &drawn),
            lists,
            ..Settings::default()
        }
    });
    let fleet = names().prop_filter("no fleet", |name| name != names::NO_FLEET);
    let drawn = (drawn, option::of(fleet), any::<u32>())
        .prop_map(|(settings, fleet, shared)| in_fleet(settings, fleet, shared));
    drawn.prop_filter("something to limit", |settings| {
        !settings.limits.is_empty()
            || !settings.lists.are_empty()
            || !settings.fleet_lists.is_empty()
    })
}

pub fn interfaces() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof!["[a-z]{1,5}[0-9]{0,3}", "[a-z0-9.@\"'\\\\#=é-]{1,7}"];
    let name = name.prop_filter("a name", |name| names::interface(name).is_ok());
    btree_set(name, 0..4).prop_map(|names| names.into_iter().collect())
}
