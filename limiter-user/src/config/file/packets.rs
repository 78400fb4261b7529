//! `match` in the file: its keys, reading and printing.

use std::fmt::Display;

use toml::de::DeValue;

use super::{
    super::{
        Match,
        matches::{IpVersion, PortRange, Ports, TcpFlags},
    },
    keys::Keys,
    section::{Places, Section},
    value::{self, Read, Value},
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
pub fn read(mut section: Section) -> (Match, Places) {
    let matches = Match {
        protocol: section.read("protocol", |value| value::number(value, PROTOCOL)),
        destination_port: section.read("destination_port", ports).unwrap_or_default(),
        source_port: section.read("source_port", ports).unwrap_or_default(),
        tcp_flags: section.read("tcp_flags", tcp_flags),
        source: section.read("source", lists).unwrap_or_default(),
        unless: section.read("unless", lists).unwrap_or_default(),
        ip_version: section.read("ip_version", ip_version),
        fragments: section.read("fragments", value::boolean),
        length: section.read("length", |value| value::number(value, LENGTH)),
    };
    (matches, section.close())
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
        (
            "ip_version",
            matches
                .ip_version
                .map(|version| version.number().to_string()),
        ),
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

fn ports(value: &Value) -> Read<Ports> {
    let one = |value: &Value| value::number::<PortRange>(value, PORT);
    value::some(value, PORT, one).map(Ports)
}

fn lists(value: &Value) -> Read<Vec<String>> {
    let one = |value: &Value| value::text_with(value, LIST, |text| Ok(text.to_owned()));
    value::some(value, LIST, one)
}

fn ip_version(value: &Value) -> Read<IpVersion> {
    let DeValue::Integer(number) = value.get_ref() else {
        return value::wrong(value, "4 or 6");
    };
    let number = value::integer(number).and_then(|number| i64::try_from(number).ok());
    let version = IpVersion::from_number(number.unwrap_or(i64::MAX));
    version.or_else(|why| value::fault(value, why.0))
}

/// Reads flags. An array names the flags that must be set, like a text with commas.
fn tcp_flags(value: &Value) -> Read<TcpFlags> {
    if !matches!(value.get_ref(), DeValue::Array(_)) {
        return value::text(value, FLAGS);
    }
    let names = value::some(value, FLAGS, |value| {
        let name = value::text_with(value, FLAGS, |text| Ok(text.to_owned()))?;
        if name.contains([',', '/']) {
            return value::fault(
                value,
                format!(
                    "'{name}' is more than one flag: write it as tcp_flags = \"{name}\", without an array"
                ),
            );
        }
        value::text::<TcpFlags>(value, FLAGS).map(|_| name)
    })?;
    names
        .join(",")
        .parse()
        .or_else(|why: super::super::Invalid| value::fault(value, why.0))
}
