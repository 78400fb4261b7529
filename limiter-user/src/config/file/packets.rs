//! `match` in the file: its keys, reading and printing.

use std::{fmt::Display, str::FromStr};

use super::{
    super::{
        Invalid, Match,
        matches::{Hex, Payload},
    },
    keys::Keys,
    section::Section,
    value::Item,
    written::{one_or_array, text},
};

const PORT: &str = "a port as in 53, a range as in \"5300-5353\", or an array of them";
const PROTOCOL: &str = "a protocol as in \"tcp\", or its number";
const LENGTH: &str = "bytes as in 60, a range as in \"0-100\" or \"1200-\", or an array of them";
const TTL: &str = "a number as in 255, a range as in \"0-5\", or an array of them";
const DSCP: &str = "a DSCP as in \"ef\" or 46, or an array of them";
const ICMP_TYPE: &str = "a type as in \"echo-request\" or 13, or an array of them";
const DESTINATION: &str = "a prefix, the name of a list, or an array of them";
const PAYLOAD: &str = "a table as in { offset = 0, bytes = \"ff ff 54\" }";
const OFFSET: &str = "a number as in 0";
const BYTES: &str = "bytes as in \"ff ff 54\"";
const NOT: &str = "a table as in { source_port = 53 }";
const FLAGS: &str = "flags as in \"syn\" or \"syn/syn,ack\"";
const LIST: &str = "the name of a list, or an array of names";

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
destination: Protected address: a prefix as in `"192.0.2.10"`, the name of a list, or an array of them. Text that can be read as a prefix is a prefix.
ip_version: Version of IP: `4` or `6`.
length: Length of the IP packet in bytes (of a fragment: its own length): a number as in `60`, a range as in `"0-100"` or `"1200-"`, or an array of them.
ttl: TTL (IPv6: hop limit): a number, a range as in `"0-5"`, or an array of them.
dscp: DSCP: a name as in `"ef"`, a number from 0 to 63, a range, or an array of them.
icmp_type: Type of an ICMP or ICMPv6 message: a name as in `"echo-request"`, which means the type of both, a number, or an array of them.
payload: Bytes behind the UDP or TCP header, as in `{ offset = 0, bytes = "ff ff ff ff 54" }`: up to 8 bytes in hexadecimal, at an offset up to 56. With `mask = "ff 0f"`, only these bits are compared.
not: Packets that the limit does not apply to, as in `{ source_port = 53 }`: those that match all fields of this table. It takes all other fields of `match`.
fragments: `true`: only fragments. `false`: only packets that are not fragments.
"#,
};

pub static PATTERN: Keys = Keys {
    table: "payload",
    place: "in payload = { ... } in match",
    known: r#"
offset: Offset of the first byte behind the UDP or TCP header, from 0 (default) to 56.
bytes: Up to 8 bytes in hexadecimal, as in `"ff ff ff ff 54"`. Required.
mask: Bits of them that are compared, in hexadecimal. Default: all.
"#,
};

pub fn read(mut section: Section) -> Match {
    Match {
        not: not(&mut section),
        ..fields(&mut section)
    }
}

fn fields(section: &mut Section) -> Match {
    let destination = section.read("destination", |item| {
        item.some(DESTINATION, |one| one.text(DESTINATION, str::parse))
    });
    Match {
        protocol: section.number("protocol", PROTOCOL),
        destination_port: several(section, "destination_port", PORT),
        source_port: several(section, "source_port", PORT),
        tcp_flags: section.text("tcp_flags", FLAGS),
        source: section.read("source", lists).unwrap_or_default(),
        unless: section.read("unless", lists).unwrap_or_default(),
        ip_version: section.number("ip_version", "4 or 6"),
        fragments: section.boolean("fragments"),
        destination: destination.unwrap_or_default(),
        length: several(section, "length", LENGTH),
        ttl: several(section, "ttl", TTL),
        dscp: several(section, "dscp", DSCP),
        icmp_type: several(section, "icmp_type", ICMP_TYPE),
        payload: payload(section),
        not: None,
    }
}

/// Reads `not`, which has the same keys.
fn not(section: &mut Section) -> Option<Box<Match>> {
    let table = section.table("not", NOT)?;
    let line = section.line_of("not");
    let mut section = section.within(table, line).with_keys(&MATCH);
    if section.has("not") {
        section.refuse(
            "not",
            "a negation within a negation is not possible: write these fields in match",
        );
    }
    let not = fields(&mut section);
    // If all its fields are wrong, that is reported already.
    (table.is_empty() || !not.is_everything()).then(|| Box::new(not))
}

fn payload(section: &mut Section) -> Option<Payload> {
    let table = section.table("payload", PAYLOAD)?;
    let line = section.line_of("payload");
    let mut section = section.within(table, line).with_keys(&PATTERN);
    section.require("bytes", &PATTERN, "bytes = \"ff ff 54\"");
    let offset = section.read("offset", |item| item.number(OFFSET, offset));
    let mask = section.text("mask", BYTES);
    Some(Payload {
        offset: offset.unwrap_or_default(),
        bytes: section.text("bytes", BYTES).unwrap_or(Hex(vec![0])),
        mask,
    })
}

fn offset(digits: &str) -> Result<u8, Invalid> {
    let most = Payload::OFFSET_MAX;
    let number = digits
        .parse()
        .ok()
        .filter(|number| usize::from(*number) <= most);
    number.ok_or_else(|| Invalid::new(format!("'{digits}' is not an offset: write 0 to {most}")))
}

/// Reads a number or text, or an array of them.
fn several<T: FromStr<Err = Invalid>>(section: &mut Section, key: &str, write: &str) -> Vec<T> {
    let read = section.read(key, |item| {
        item.some(write, |one| one.number(write, str::parse))
    });
    read.unwrap_or_default()
}

fn lists(item: &mut Item) -> Option<Vec<String>> {
    item.some(LIST, |list| list.text(LIST, |name| Ok(name.to_owned())))
}

/// Prints `match` as in the file.
pub fn show(matches: &Match) -> String {
    let payload = matches.payload.as_ref().map(|payload| {
        let mask = payload
            .mask
            .as_ref()
            .map(|mask| format!(", mask = {}", text(mask)));
        let (offset, bytes) = (payload.offset, text(&payload.bytes));
        format!(
            "{{ offset = {offset}, bytes = {bytes}{} }}",
            mask.unwrap_or_default()
        )
    });
    let fields = [
        ("protocol", matches.protocol.map(text)),
        (
            "destination_port",
            shown(&matches.destination_port, number_or_text),
        ),
        ("source_port", shown(&matches.source_port, number_or_text)),
        ("tcp_flags", matches.tcp_flags.map(text)),
        ("source", shown(&matches.source, text)),
        ("unless", shown(&matches.unless, text)),
        ("ip_version", matches.ip_version.map(number_or_text)),
        ("destination", shown(&matches.destination, text)),
        ("length", shown(&matches.length, number_or_text)),
        ("ttl", shown(&matches.ttl, number_or_text)),
        ("dscp", shown(&matches.dscp, number_or_text)),
        ("icmp_type", shown(&matches.icmp_type, number_or_text)),
        ("payload", payload),
        ("not", matches.not.as_deref().map(show)),
        ("fragments", matches.fragments.map(|only| only.to_string())),
    ];
    let written = fields
        .into_iter()
        .filter_map(|(key, value)| Some(format!("{key} = {}", value?)));
    format!("{{ {} }}", written.collect::<Vec<_>>().join(", "))
}

/// Prints one value, or an array; nothing if there is no value.
fn shown<'v, T>(values: &'v [T], one: impl Fn(&'v T) -> String) -> Option<String> {
    (!values.is_empty()).then(|| one_or_array(values.iter().map(one).collect()))
}

/// Prints a number without quotes, or a range with them.
fn number_or_text(value: impl Display) -> String {
    let shown = value.to_string();
    match shown.parse::<u32>() {
        Ok(_) => shown,
        Err(_) => text(shown),
    }
}
