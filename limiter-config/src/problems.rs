//! Contradictions between settings that are each well-formed.

use std::{cmp::Ordering, collections::BTreeSet, str::FromStr as _};

use limiter_common::arithmetic::quota::Quota;

use super::{
    ALLOW, Algorithm, Control, DENY, Destination, Direction, Exempt, Invalid, Limit, Match,
    Protocol, Rate, Scope, Settings, Unit,
    control::{CONTROL_LIMIT, CONTROL_ROUTES},
    invalid,
    lists::{BANS, TIERS_MAX},
    matches::{Payload, TcpFlags, check_count},
    names,
    settings::{BANS_MAX, CONNECTIONS_MAX, LIMITS_MAX, SOURCES_MAX},
};

/// The most refused questions for one answer.
const SLIP_MAX: u64 = 1_000;

/// A part of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The settings as a whole.
    Whole,
    /// The limits on control traffic.
    Control,
    /// The lists.
    Lists,
    /// The limit with this index.
    Limit(usize),
}

/// A contradiction between settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The part that the problem concerns.
    pub part: Part,
    /// The key that the problem concerns, as the configuration file names it.
    pub key: String,
    /// The problem, and what to write.
    pub why: Invalid,
}

/// The problems found so far, and the part that is being checked.
struct Problems {
    part: Part,
    found: Vec<Problem>,
}

impl Problems {
    /// Adds a problem with `key` if `is_wrong`.
    fn check(&mut self, is_wrong: bool, key: &str, why: impl FnOnce() -> String) {
        if is_wrong {
            self.add(key, Err::<(), _>(Invalid(why())));
        }
    }

    fn add<T>(&mut self, key: &str, checked: Result<T, Invalid>) {
        let Some(why) = checked.err() else { return };
        self.found.push(Problem {
            part: self.part,
            key: key.to_owned(),
            why,
        });
    }
}

impl Settings {
    /// All problems that do not depend on the interface.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Problems {
            part: Part::Whole,
            found: Vec::new(),
        };
        if let Some(fleet) = &self.fleet {
            problems.add("fleet", names::fleet(fleet));
        }
        problems.part = Part::Lists;
        for tier in self.lists.tiers.keys() {
            problems.add(tier, names::name(tier));
        }
        for list in &self.fleet_lists {
            let is_missing = list != BANS && self.lists.all().all(|(name, _)| name != list);
            problems.check(is_missing, list, || {
                format!("there is no list '{list}' for a fleet to share: write it under [lists]")
            });
            problems.check(!is_missing && self.fleet.is_none(), list, || {
                no_fleet(&format!("list '{list}'"))
            });
        }
        problems.part = Part::Whole;
        self.check_whole(&mut problems);
        problems.part = Part::Control;
        self.control.check(self.exempt, &mut problems);
        let mut names = BTreeSet::new();
        for (index, limit) in self.limits.iter().enumerate() {
            problems.part = Part::Limit(index);
            let name = &limit.name;
            problems.add("name", names::name(name));
            problems.check(!names.insert(name), "name", || {
                format!("two limits are called '{name}': write another name")
            });
            self.check_references(limit, &mut problems);
            limit.check(&mut problems);
        }
        problems.found
    }

    /// Fails with the first problem, if there is one.
    pub fn check(&self) -> Result<(), Invalid> {
        match self.problems().into_iter().next() {
            Some(problem) => Err(problem.why),
            None => Ok(()),
        }
    }

    fn check_whole(&self, problems: &mut Problems) {
        let (limits, tiers) = (self.limits.len(), &self.lists.tiers);
        problems.check(limits > LIMITS_MAX, "limit", || {
            format!("{limits} limits are too many: write at most {LIMITS_MAX}")
        });
        let fits = (1..=SOURCES_MAX).contains(&self.max_sources);
        problems.check(!fits, "max_sources", || {
            format!("the table holds 1 to {SOURCES_MAX} sources: write a number in between")
        });
        problems.check(self.max_bans > BANS_MAX, "max_bans", || {
            format!("there is room for at most {BANS_MAX} bans: write a number up to that")
        });
        let sets = self.limits.iter();
        let sets: BTreeSet<_> = sets.flat_map(|limit| limit.matches.sets()).collect();
        problems.check(tiers.len() + sets.len() > TIERS_MAX, "lists", || {
            let sets = match sets.len() {
                0 => String::new(),
                sets => format!(" and {sets} sets of prefixes"),
            };
            format!(
                "{} lists beside allow and deny{sets} are too many: write at most {TIERS_MAX}",
                tiers.len()
            )
        });
        problems.add("nat64", self.check_nat64());
        match self.new_sources {
            Some(new_sources) => problems.add("new_sources", new_sources.quota()),
            None => problems.check(self.has_proof(), "new_sources", || {
                "a proof needs a rate of new sources: write one as in 10k/s, or leave proof out"
                    .to_owned()
            }),
        }
    }

    /// Checks the lists and the fleet that a limit names.
    fn check_references(&self, limit: &Limit, problems: &mut Problems) {
        for matches in limit.matches.all() {
            let places = [
                ("source", &matches.source),
                ("unless", &matches.unless),
                ("destination", &matches.destination),
            ];
            let each = places.into_iter();
            let each = each.flat_map(|(key, places)| places.iter().map(move |place| (key, place)));
            let lists = each.filter_map(|(key, place)| match place {
                Destination::List(name) => Some((key, name)),
                Destination::Prefix(_) => None,
            });
            for (key, list) in lists {
                let is_action = list == ALLOW || list == DENY;
                problems.check(is_action, key, || match key {
                    "destination" => format!("limits cannot match destinations on '{list}', which has sources: use a list with another name"),
                    _ => format!("packets from sources on '{list}' never reach a limit: use a list with another name"),
                });
                let is_unknown = !is_action && !self.lists.tiers.contains_key(list);
                problems.check(is_unknown, key, || match key {
                    "destination" => format!("'{list}' is neither a prefix nor a list: write a prefix as in 192.0.2.0/24, or the list under [lists]"),
                    _ => format!("there is no list '{list}': write it under [lists]"),
                });
            }
        }
        let is_late = self.direction == Direction::In && limit.max_delay.is_some();
        problems.check(is_late, "max_delay", || {
            "only packets that the interface sends can be delayed: write direction = \"out\" at the top of the file, or leave max_delay out".to_owned()
        });
        let is_outward = self.direction == Direction::Out && limit.connections.is_some();
        problems.check(is_outward, "connections", || {
            "connections are counted by the packets that arrive: write direction = \"in\", or leave connections out".to_owned()
        });
        let has_no_fleet = limit.scope == Scope::Fleet && self.fleet.is_none();
        problems.check(has_no_fleet, "scope", || {
            no_fleet(&format!("limit '{}'", limit.name))
        });
    }
}

fn no_fleet(shared: &str) -> String {
    format!(
        "{shared} is shared by a fleet, but no fleet is named: write fleet = \"NAME\" at the top of the file, or scope = \"host\""
    )
}

impl Control {
    /// Checks the rates and bursts.
    fn check(&self, exempt: Exempt, problems: &mut Problems) {
        let in_packets = |rate: Rate| match rate.unit {
            Unit::Packets => Ok(()),
            Unit::Bytes => Err(invalid!(
                "control traffic is counted in packets, and {rate} is in bits: write a rate as in 100/s"
            )),
        };
        let rates = [
            ("rate", Some(self.rate)),
            ("routing", Some(self.routing)),
            ("total", self.total),
        ];
        let rates = rates.map(|(key, rate)| (key, rate.map_or(Ok(()), in_packets)));
        if rates.iter().any(|(_, rate)| rate.is_err()) {
            for (key, rate) in rates {
                problems.add(key, rate);
            }
            return;
        }
        for limit in self.limits(exempt) {
            let key = match limit.name.as_str() {
                CONTROL_LIMIT => "burst",
                CONTROL_ROUTES => "routing",
                _ => "total",
            };
            problems.add(key, limit.quota(1));
        }
        let rates = [
            (exempt.control, self.rate),
            (exempt.has_routing(), self.routing),
        ];
        let rates = rates.into_iter().filter(|(is_exempt, _)| *is_exempt);
        let Some(total) = self.total else { return };
        for (_, rate) in rates {
            let is_less = total.compare(&rate) == Some(Ordering::Less);
            problems.check(is_less, "total", || {
                format!(
                    "{total} for all sources is less than the rate of one source: write at least {rate}"
                )
            });
        }
    }
}

impl Limit {
    /// Checks everything that does not depend on the interface.
    fn check(&self, problems: &mut Problems) {
        let Self { rate, cost, .. } = self;
        let (is_shared, in_bits) = (self.scope == Scope::Fleet, rate.unit == Unit::Bytes);
        let is_window = self.algorithm == Algorithm::FixedWindow;
        problems.check(is_shared && is_window, "algorithm", || {
            "a fleet cannot share a fixed window, which begins at a different time on each host: write \"token-bucket\", or scope = \"host\"".to_owned()
        });
        problems.check(is_shared && in_bits, "rate", || {
            format!("a fleet shares only rates in packets, and {rate} is in bits: write a rate as in 100/s, or scope = \"host\"")
        });
        problems.check(is_shared && !self.key.is_by_source(), "key", || {
            format!("a fleet shares only buckets of sources, and {} has more than the source: write a key as in /32,/64, or scope = \"host\"", self.key)
        });
        problems.check(*cost == Some(0), "cost", || {
            "packets with a cost of 0 would never be limited: write at least 1".to_owned()
        });
        let has_unit = cost.is_some_and(|cost| cost > 0) && in_bits;
        problems.check(has_unit, "cost", || {
            format!("a fixed cost goes with a rate in packets, and {rate} is in bits: leave the cost out, or write another rate")
        });
        let other = [(is_window, "fixed window"), (is_shared, "limit of a fleet")];
        let other = other.into_iter().find(|(is_so, _)| *is_so);
        let (is_other, other) = (other.is_some(), other.map_or("", |(_, other)| other));
        if let Some(adaptive) = &self.adaptive {
            problems.check(is_other, "adaptive", || {
                format!("the rate of a {other} cannot follow this host's load: leave adaptive out")
            });
            let rates = adaptive.when.rates().into_iter();
            for (key, rate) in rates.filter_map(|(key, rate)| Some((key, rate?))) {
                problems.check(rate.unit == Unit::Bytes, "adaptive", || {
                    format!("{key} {rate} is a rate of bits: write events as in 100/s")
                });
            }
            problems.check(self.hold.is_some(), "adaptive", || {
                "a lowered rate would hold sources for long after it has recovered: leave hold or adaptive out".to_owned()
            });
            problems.check(adaptive.when.is_empty(), "adaptive", || {
                "no signal ever lowers the rate: write one as in { cpu_pressure = \"20%\" }, or leave adaptive out".to_owned()
            });
        }
        if let Some(max_delay) = self.max_delay {
            problems.check(is_other || self.hold.is_some(), "max_delay", || {
                let other = if is_other { other } else { "limit with hold" };
                format!("a {other} cannot delay packets: leave max_delay out")
            });
            problems.add("max_delay", max_delay.pace(Quota::default()));
        }
        if let Some(hold) = self.hold {
            problems.check(is_other, "hold", || {
                format!("a {other} cannot hold sources: leave hold out")
            });
            problems.check(!self.key.separates_sources(), "hold", || {
                format!("all sources share a bucket of the key {}, so that one source's flood would shut out all of them: write a key with the source, as in /32,/64, or leave hold out", self.key)
            });
            let without = Self {
                hold: None,
                ..self.clone()
            };
            if let (false, Ok(quota)) = (is_other, without.quota(1)) {
                problems.add("hold", hold.hold(quota.in_kernel));
            }
            without.check_burst(problems);
        } else {
            self.check_burst(problems);
        }
        self.check_proof(problems);
        self.check_connections(problems);
        self.matches.check(problems);
    }

    /// Checks the bound on open connections: sockets show fewer fields than packets.
    fn check_connections(&self, problems: &mut Problems) {
        let Some(most) = self.connections else { return };
        let fits = (1..=CONNECTIONS_MAX).contains(&most);
        problems.check(!fits, "connections", || {
            format!("a key may have 1 to {CONNECTIONS_MAX} connections: write a number in between, or deny the sources")
        });
        let matches = &self.matches;
        let is_tcp = matches.protocol == Some(Protocol::TCP);
        problems.check(!is_tcp, "connections", || {
            "only TCP has connections that limiter counts: write match = { protocol = \"tcp\" }, or leave connections out".to_owned()
        });
        let seen = Match {
            protocol: matches.protocol,
            destination_port: matches.destination_port.clone(),
            ip_version: matches.ip_version,
            source: matches.source.clone(),
            unless: matches.unless.clone(),
            tcp_flags: TcpFlags::from_str("syn")
                .ok()
                .filter(|_| matches.tcp_flags.is_some()),
            ..Match::default()
        };
        problems.check(is_tcp && *matches != seen, "connections", || {
            "sockets show no other fields of a match than protocol, destination_port, ip_version, source, unless, and tcp_flags = \"syn\": leave the others out, or write connections in a limit of its own".to_owned()
        });
        problems.check(!self.key.is_by_source() || self.key.by_vlan, "connections", || {
            format!("connections are counted by source, and {} is another key: write a key as in /32,/64, or leave connections out", self.key)
        });
        problems.check(self.scope == Scope::Fleet, "connections", || {
            "connections are counted on each host by itself: write scope = \"host\", or leave connections out".to_owned()
        });
    }

    fn check_proof(&self, problems: &mut Problems) {
        let not =
            |wanted: Protocol| (self.matches.protocol).is_some_and(|protocol| protocol != wanted);
        problems.check(self.proof.syn_cookie && not(Protocol::TCP), "proof", || {
            "only TCP has SYN cookies: match protocol = \"tcp\", or leave \"syn-cookie\" out of proof"
                .to_owned()
        });
        for (name, has_it) in [("dns-tc", self.proof.dns_tc), ("a2s", self.proof.a2s)] {
            problems.check(has_it && not(Protocol::UDP), "proof", || {
                format!("{name} is for questions over UDP: match protocol = \"udp\", or leave \"{name}\" out of proof")
            });
        }
        let is_by_source = self.key.is_by_source() && self.key.separates_sources();
        problems.check(self.proof.any() && !is_by_source, "proof", || {
            format!("a proof is about the address of a source, and {} is another key: write a key as in /32,/64, or leave proof out", self.key)
        });
        let Some(slip) = self.slip else { return };
        problems.check(!self.proof.dns_tc, "slip", || {
            "only dns-tc has answers to leave out: write proof = \"dns-tc\", or leave slip out"
                .to_owned()
        });
        problems.check(!(1..=SLIP_MAX).contains(&slip), "slip", || {
            format!("of 1 to {SLIP_MAX} questions, one gets an answer: write a number in between, or leave slip out")
        });
    }

    /// Checks burst and cost, without the hold.
    fn check_burst(&self, problems: &mut Problems) {
        let Self { rate, cost, .. } = self;
        let in_bits = rate.unit == Unit::Bytes;
        // Checked with the shortest frame, because the longest one depends on the interface.
        let fits = self
            .burst
            .map_or(Ok(()), |burst| burst.for_rate(rate).map(drop));
        if fits.is_err() || cost.is_none() {
            problems.add("burst", fits.and_then(|()| self.quota(1)));
        } else if *cost != Some(0) && !in_bits {
            problems.add("cost", self.quota(1));
        }
    }
}

impl Match {
    fn check(&self, problems: &mut Problems) {
        for (_, key, ranges) in self.fields() {
            problems.add(key, check_count(&ranges));
        }
        if let Some(payload) = &self.payload {
            payload.check(problems);
        }
        if let Some(not) = &self.not {
            problems.check(not.is_everything(), "not", || {
                "an empty table excepts every packet: write what to except, as in { destination_port = 53 }, or leave it out".to_owned()
            });
            not.check(problems);
        }
        let Some(protocol) = self.protocol else {
            return;
        };
        let (tcp, udp) = (Protocol::TCP, Protocol::UDP);
        let icmp = [Protocol::ICMP, Protocol::ICMPV6];
        let types = !self.icmp_type.is_empty();
        let of_protocols = [
            (self.tcp_flags.is_some(), "tcp_flags", &[tcp][..], "\"tcp\""),
            (types, "icmp_type", &icmp, "\"icmp\" or \"icmpv6\""),
            (
                self.payload.is_some(),
                "payload",
                &[tcp, udp],
                "\"tcp\" or \"udp\"",
            ),
            (
                !self.payload_length.is_empty(),
                "payload_length",
                &[tcp, udp, icmp[0], icmp[1]],
                "\"tcp\", \"udp\", \"icmp\" or \"icmpv6\"",
            ),
            (
                self.established == Some(true),
                "established",
                &[tcp, udp],
                "\"tcp\" or \"udp\"",
            ),
        ];
        let mut wrong = of_protocols
            .iter()
            .filter(|(used, _, protocols, _)| *used && !protocols.contains(&protocol));
        if let Some((_, key, _, instead)) = wrong.next() {
            problems.check(true, "protocol", || {
                format!("{key} with protocol {protocol} never match: write protocol = {instead}, or leave it out")
            });
            return;
        }
        let has_ports = !self.destination_port.is_empty() || !self.source_port.is_empty();
        problems.check(has_ports && !protocol.has_ports(), "protocol", || {
            format!("protocol {protocol} has no ports: leave the ports out, or write tcp or udp")
        });
    }
}

impl Payload {
    fn check(&self, problems: &mut Problems) {
        let (length, most) = (self.bytes.0.len(), Self::OFFSET_MAX);
        problems.check(usize::from(self.offset) > most, "payload", || {
            format!("the offset is too far: write 0 to {most}")
        });
        let mask = self.mask.as_ref().map_or(length, |mask| mask.0.len());
        problems.check(mask != length, "payload", || {
            format!("the mask has {mask} bytes, and bytes has {length}: write as many")
        });
    }
}
