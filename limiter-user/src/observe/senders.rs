//! Senders, whatever limit their packets meet: estimates from a sample of packets, summed by fields of them.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
};

use ipnet::IpNet;
use serde::Serialize;

use super::{event::Event, thinning::Thinning};

/// The most groups that are told apart; fewer in tests, which fill it. Packets of further ones are summed.
const GROUPS_MAX: usize = if cfg!(test) { 1_024 } else { 65_536 };

/// A field of packets to sum by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The source address.
    Source,
    /// The source's network: /24 of IPv4, /64 of IPv6.
    Network,
    /// The destination port.
    Port,
    /// The transport protocol.
    Protocol,
    /// The reason.
    Reason,
    /// The limit.
    Limit,
    /// The verdict.
    Verdict,
}

impl Field {
    /// All fields.
    pub const ALL: [Self; 7] = [
        Self::Source,
        Self::Network,
        Self::Port,
        Self::Protocol,
        Self::Reason,
        Self::Limit,
        Self::Verdict,
    ];

    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Network => "network",
            Self::Port => "port",
            Self::Protocol => "protocol",
            Self::Reason => "reason",
            Self::Limit => "limit",
            Self::Verdict => "verdict",
        }
    }
}

/// Packets that are equal in the chosen fields. Other fields are null, and so are fields that a packet does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Group {
    /// Source address.
    pub source: Option<IpAddr>,
    /// Network of the source: /24 of IPv4, /64 of IPv6.
    pub network: Option<String>,
    /// Destination port.
    pub port: Option<u16>,
    /// Transport protocol, by name or number, or `arp`.
    pub protocol: Option<String>,
    /// Name of the reason.
    pub reason: Option<&'static str>,
    /// The limit that refused the packets, or that admitted them first.
    pub limit: Option<String>,
    /// `drop`, `would_drop` or `pass`.
    pub verdict: Option<&'static str>,
}

impl Group {
    fn of(fields: &[Field], event: &Event) -> Self {
        let has = |field| fields.contains(&field);
        Self {
            source: event.source.filter(|_| has(Field::Source)),
            network: event
                .source
                .filter(|_| has(Field::Network))
                .map(|address| network_of(address).to_string()),
            port: event.destination_port.filter(|_| has(Field::Port)),
            protocol: event.protocol.clone().filter(|_| has(Field::Protocol)),
            reason: has(Field::Reason).then_some(event.reason),
            limit: event.limit.clone().filter(|_| has(Field::Limit)),
            verdict: has(Field::Verdict).then_some(event.verdict),
        }
    }
}

fn network_of(address: IpAddr) -> IpNet {
    let bits = if address.is_ipv4() { 24 } else { 64 };
    IpNet::new(address, bits).map_or(address.into(), |network| network.trunc())
}

/// An estimated number of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    packets: f64,
    bytes: f64,
    dropped: f64,
    would_drop: f64,
}

impl Sum {
    /// Adds another sum `factor` times.
    fn add(&mut self, other: &Self, factor: f64) {
        self.packets += other.packets * factor;
        self.bytes += other.bytes * factor;
        self.dropped += other.dropped * factor;
        self.would_drop += other.would_drop * factor;
    }

    fn traffic(&self, seconds: f64) -> Traffic {
        let share = |part: f64| part / self.packets.max(f64::MIN_POSITIVE);
        Traffic {
            packets_per_second: self.packets / seconds,
            bytes_per_second: self.bytes / seconds,
            dropped: share(self.dropped),
            would_drop: share(self.would_drop),
        }
    }
}

/// Estimated traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Traffic {
    /// Packets per second.
    pub packets_per_second: f64,
    /// Bytes of frames per second.
    pub bytes_per_second: f64,
    /// Share of the packets that were dropped, from 0 to 1.
    pub dropped: f64,
    /// Share of the packets that passed only because of shadow.
    pub would_drop: f64,
}

/// The traffic of one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sender {
    /// The packets.
    #[serde(flatten)]
    pub group: Group,
    /// Their traffic.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// The output of `watch --by --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Senders {
    /// Name of the interface.
    pub interface: String,
    /// Duration of the watch in seconds.
    pub seconds: f64,
    /// The chosen fields.
    pub by: Vec<&'static str>,
    /// Events that the estimates are made from.
    pub events: u64,
    /// All packets.
    pub total: Traffic,
    /// The groups with the most packets, in descending order.
    pub senders: Vec<Sender>,
    /// Packets of all other groups.
    pub others: Traffic,
}

/// Sums of a running watch.
#[derive(Debug)]
pub struct Tally {
    fields: Vec<Field>,
    groups: HashMap<Group, Sum>,
    others: Sum,
    total: Sum,
    events: u64,
    /// Since the end of the last window.
    window: HashMap<Group, Sum>,
    in_window: u64,
    thinning: Thinning,
}

impl Tally {
    /// No packets. Every packet is in the sample.
    pub fn new(fields: Vec<Field>) -> Self {
        Self {
            fields,
            groups: HashMap::new(),
            others: Sum::default(),
            total: Sum::default(),
            events: 0,
            window: HashMap::new(),
            in_window: 0,
            thinning: Thinning::default(),
        }
    }

    /// Adds an event of a sample of one packet in `one_in`.
    pub fn add(&mut self, event: &Event, one_in: f64) {
        self.in_window += 1;
        let packets = f64::from(event.packets.max(1));
        let share = |verdict| {
            if event.verdict == verdict {
                packets
            } else {
                0.0
            }
        };
        let packet = Sum {
            packets,
            bytes: event.length.into(),
            dropped: share("drop"),
            would_drop: share("would_drop"),
        };
        let group = Group::of(&self.fields, event);
        self.window.entry(group).or_default().add(&packet, one_in);
    }

    /// Ends a window in which `lost` packets of the sample were not reported: they count as if they were like those that
    /// were. Returns the next sample, if it is another one.
    pub fn end_window(&mut self, lost: u64) -> Option<f64> {
        let all: f64 = self.window.values().map(|sum| sum.packets).sum();
        let missing = lost as f64 * self.thinning.one_in;
        let factor = if all > 0.0 { 1.0 + missing / all } else { 1.0 };
        for (group, sum) in self.window.drain() {
            self.total.add(&sum, factor);
            let is_full = self.groups.len() >= GROUPS_MAX;
            match self.groups.entry(group) {
                Entry::Vacant(_) if is_full => self.others.add(&sum, factor),
                entry => entry.or_default().add(&sum, factor),
            }
        }
        let reported = std::mem::take(&mut self.in_window);
        self.events += reported;
        self.thinning.next(reported, lost)
    }

    /// The networks that say more than the sources: the share of all packets that the `most` largest ones sent, and that of
    /// as many sources. `None` if the sources say nearly as much, or are not asked for.
    pub fn networks(&self, most: usize) -> Option<[f64; 2]> {
        if !self.fields.contains(&Field::Source) || self.fields.contains(&Field::Network) {
            return None;
        }
        let mut networks: HashMap<IpNet, f64> = HashMap::new();
        for (group, sum) in &self.groups {
            *networks.entry(network_of(group.source?)).or_default() += sum.packets;
        }
        let share = |packets: Vec<f64>| {
            let mut packets = packets;
            packets.sort_by(|left, right| right.total_cmp(left));
            let largest: f64 = packets.iter().take(most).sum();
            largest / self.total.packets.max(f64::MIN_POSITIVE)
        };
        let sources = share(self.groups.values().map(|sum| sum.packets).collect());
        let networks = share(networks.into_values().collect());
        (sources < 0.5 && networks > 1.5 * sources + 0.1).then_some([networks, sources])
    }

    /// The result after so many seconds: at most `most` groups, and the sum of the others.
    pub fn senders(&self, interface: &str, seconds: f64, most: usize) -> Senders {
        let mut groups: Vec<_> = self.groups.iter().collect();
        // Equal ones in a fixed order.
        groups.sort_by(|(group, sum), (other, than)| {
            than.packets
                .total_cmp(&sum.packets)
                .then_with(|| group.cmp(other))
        });
        let shown = groups.len().min(most);
        let mut others = self.others;
        for (_, sum) in &groups[shown..] {
            others.add(sum, 1.0);
        }
        let sender = |(group, sum): &(&Group, &Sum)| Sender {
            group: (*group).clone(),
            traffic: sum.traffic(seconds),
        };
        Senders {
            interface: interface.to_owned(),
            seconds,
            by: self.fields.iter().map(|field| field.name()).collect(),
            events: self.events,
            total: self.total.traffic(seconds),
            senders: groups[..shown].iter().map(sender).collect(),
            others: others.traffic(seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(source: &str, verdict: &'static str) -> Event {
        Event {
            time: String::new(),
            interface: "eth0".to_owned(),
            source: source.parse().ok(),
            source_port: Some(9),
            destination: None,
            destination_port: Some(53),
            protocol: Some("udp".to_owned()),
            tcp_flags: None,
            length: 100,
            packets: 1,
            limit: None,
            verdict,
            reason: "limit",
        }
    }

    fn tally(fields: &[Field]) -> Tally {
        Tally::new(fields.to_vec())
    }

    #[test]
    fn packets_are_summed_by_the_chosen_fields() {
        let mut tally = tally(&[Field::Network, Field::Port]);
        for (source, verdict) in [
            ("192.0.2.1", "pass"),
            ("192.0.2.9", "drop"),
            ("2001:db8::1", "drop"),
            ("192.0.2.9", "would_drop"),
        ] {
            tally.add(&event(source, verdict), 1.0);
        }
        assert_eq!(tally.end_window(0), None);
        let senders = tally.senders("eth0", 2.0, 1);
        let first = &senders.senders[0];
        assert_eq!(first.group.network.as_deref(), Some("192.0.2.0/24"));
        assert_eq!((first.group.port, first.group.source), (Some(53), None));
        let wanted = Traffic {
            packets_per_second: 1.5,
            bytes_per_second: 150.0,
            dropped: 1.0 / 3.0,
            would_drop: 1.0 / 3.0,
        };
        assert_eq!(first.traffic, wanted);
        assert_eq!(senders.senders.len(), 1);
        assert_eq!(senders.others.packets_per_second, 0.5);
        assert_eq!(senders.total.packets_per_second, 2.0);
    }

    #[test]
    fn lost_packets_count_like_the_others_and_thin_out_the_sample() {
        let mut tally = tally(&[Field::Source]);
        for _ in 0..100 {
            tally.add(&event("192.0.2.1", "drop"), 1.0);
        }
        let one_in = tally.end_window(900).unwrap();
        assert!(one_in >= 10.0, "{one_in}");
        tally.add(&event("192.0.2.1", "drop"), one_in);
        assert_eq!(tally.end_window(0), Some(one_in / 2.0), "few events");
        let senders = tally.senders("eth0", 1.0, 9);
        assert_eq!(senders.total.packets_per_second, 1_000.0 + one_in);
    }

    #[test]
    fn groups_are_bounded() {
        let mut tally = tally(&[Field::Source]);
        for number in 0..u32::try_from(GROUPS_MAX).unwrap() + 10 {
            let source = std::net::Ipv4Addr::from_bits(number).to_string();
            tally.add(&event(&source, "pass"), 1.0);
        }
        tally.end_window(0);
        assert_eq!(tally.groups.len(), GROUPS_MAX);
        let senders = tally.senders("eth0", 1.0, usize::MAX);
        assert_eq!(senders.others.packets_per_second, 10.0);
    }

    /// 200 sources each in 3 networks of IPv6, as of hosts that change their address.
    #[test]
    fn networks_are_pointed_to_when_they_say_more() {
        let mut many = tally(&[Field::Source, Field::Port]);
        for number in 0..600 {
            let source = format!("2001:db8:0:{}::{number:x}", number % 3);
            many.add(&event(&source, "drop"), 1.0);
        }
        many.end_window(0);
        let [networks, sources] = many.networks(20).unwrap();
        assert_eq!(networks, 1.0);
        assert!((sources - 20.0 / 600.0).abs() < 1e-9, "{sources}");
        assert_eq!(many.networks(600), None, "all sources are in the table");
        let mut few = tally(&[Field::Source]);
        for number in 0..600 {
            let source = format!("2001:db8:0:{number:x}::1");
            few.add(&event(&source, "drop"), 1.0);
        }
        few.end_window(0);
        assert_eq!(few.networks(20), None, "a network each");
        let mut by_port = tally(&[Field::Port]);
        by_port.add(&event("192.0.2.1", "drop"), 1.0);
        by_port.end_window(0);
        assert_eq!(by_port.networks(20), None);
    }
}
