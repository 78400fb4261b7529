//! `match` in the file: its keys, reading and printing.

use std::fmt::Display;

use super::{
    super::{Match, matches::Ports},
    keys::Keys,
    section::Section,
    value::Item,
    written::{one_or_array, text},
};

const PORT: &str = "a port as in 53, a range as in \"5300-5353\", or an array of them";
const PROTOCOL: &str = "a protocol as in \"tcp\", or its number";
const LENGTH: &str = "bytes as in 60, or a range as in \"0-100\" or \"1200-\"";
const FLAGS: &str = "flags as in \"syn\" or \"syn/syn,ack\"";
const LIST: &str = "the name of a list, or an array of names";

/// The keys of `match`.
pub static MATCH: Keys = Keys {
    table: "match",
    place: "in match = { ... } under [[limit]]",
    known: r#"
protocol: Transport protocol: `"tcp"`, `"udp"`, `"icmp"`, `"icmpv6"` and others, or its number.
destination_port: Destination port as in `53`, a range as in `"5300-5353"`, or an array of them.
source_port: Source port, a range, or an array of them.
tcp_flags: TCP flags that must be set, as in `"syn"` or `"syn,ack"`. Without a slash, FIN, SYN, RST and ACK are compared: `"syn"` means SYN without ACK. A slash names the flags to compare, as in `"syn/syn,ack"`.
source: Name of a list, or an array of names: the limit applies only to sources on one of them.
unless: Name of a list, or an array of names: the limit applies only to sources on none of them.
ip_version: Version of IP: `4` or `6`.
length: Length of the IP packet in bytes: a number as in `60`, or a range as in `"0-100"` or `"1200-"`.
fragments: `true`: only fragments. `false`: only packets that are not fragments.
"#,
};

/// Reads a `match` section.
pub fn read(mut section: Section) -> Match {
    Match {
        protocol: section.number("protocol", PROTOCOL),
        destination_port: section.read("destination_port", ports).unwrap_or_default(),
        source_port: section.read("source_port", ports).unwrap_or_default(),
        tcp_flags: section.text("tcp_flags", FLAGS),
        source: section.read("source", lists).unwrap_or_default(),
        unless: section.read("unless", lists).unwrap_or_default(),
        ip_version: section.number("ip_version", "4 or 6"),
        fragments: section.boolean("fragments"),
        length: section.number("length", LENGTH),
    }
}

fn ports(item: &mut Item) -> Option<Ports> {
    let ports = item.some(PORT, |port| port.number(PORT, str::parse));
    ports.map(Ports)
}

fn lists(item: &mut Item) -> Option<Vec<String>> {
    item.some(LIST, |list| list.text(LIST, |name| Ok(name.to_owned())))
}

/// Prints `match` as in the file.
pub fn show(matches: &Match) -> String {
    let ports = |ports: &Ports| {
        (!ports.0.is_empty()).then(|| one_or_array(ports.0.iter().map(number_or_text).collect()))
    };
    let lists = |names: &[String]| {
        (!names.is_empty()).then(|| one_or_array(names.iter().map(text).collect()))
    };
    let fields = [
        ("protocol", matches.protocol.map(text)),
        ("destination_port", ports(&matches.destination_port)),
        ("source_port", ports(&matches.source_port)),
        ("tcp_flags", matches.tcp_flags.map(text)),
        ("source", lists(&matches.source)),
        ("unless", lists(&matches.unless)),
        ("ip_version", matches.ip_version.map(number_or_text)),
        ("length", matches.length.map(number_or_text)),
        ("fragments", matches.fragments.map(|only| only.to_string())),
    ];
    let written = fields
        .into_iter()
        .filter_map(|(key, value)| Some(format!("{key} = {}", value?)));
    format!("{{ {} }}", written.collect::<Vec<_>>().join(", "))
}

/// Prints a number without quotes, or a range with them.
fn number_or_text(value: impl Display) -> String {
    let shown = value.to_string();
    match shown.parse::<u32>() {
        Ok(_) => shown,
        Err(_) => text(shown),
    }
}
