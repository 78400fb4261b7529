//! `match` in the file: reading and printing.

use std::fmt::Display;

use super::{
    super::{
        Match,
        matches::{Hex, Payload},
        number,
    },
    section::Section,
    written::{one_or_array, text},
};

/// Reads `match` of a limit.
pub fn read(section: &mut Section) -> Match {
    let Some(mut section) = section.inner("match", "match") else {
        return Match::default();
    };
    Match {
        not: not(&mut section),
        ..fields(&mut section)
    }
}

fn fields(section: &mut Section) -> Match {
    Match {
        protocol: section.number("protocol"),
        destination_port: section.several("destination_port"),
        source_port: section.several("source_port"),
        tcp_flags: section.text("tcp_flags"),
        source: section.several_texts("source"),
        unless: section.several_texts("unless"),
        ip_version: section.number("ip_version"),
        fragments: section.boolean("fragments"),
        destination: section.several_texts("destination"),
        length: section.several("length"),
        ttl: section.several("ttl"),
        dscp: section.several("dscp"),
        icmp_type: section.several("icmp_type"),
        payload: payload(section),
        not: None,
    }
}

/// Reads `not`, which has the same keys.
fn not(section: &mut Section) -> Option<Box<Match>> {
    let mut section = section.inner("not", "match")?;
    if section.has("not") {
        section.refuse(
            "not",
            "a negation within a negation is not possible: write these fields in match",
        );
    }
    let not = fields(&mut section);
    // If all its fields are wrong, that is reported already.
    (section.table.is_empty() || !not.is_everything()).then(|| Box::new(not))
}

fn payload(section: &mut Section) -> Option<Payload> {
    let mut section = section.inner("payload", "payload")?;
    let offset = section.read("offset", |item| item.number(number::count));
    Some(Payload {
        // A number beyond `u8` is too far too, which is reported with the other problems.
        offset: offset.map_or(0, |offset| u8::try_from(offset).unwrap_or(u8::MAX)),
        bytes: section.text("bytes").unwrap_or(Hex(vec![0])),
        mask: section.text("mask"),
    })
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
