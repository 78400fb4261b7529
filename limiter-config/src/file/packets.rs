//! `match` in the file: reading and printing.

use std::fmt::Display;

use super::{
    super::{
        Match,
        matches::{Hex, Payload},
    },
    section::Section,
    value::boolean,
    written::{array, table, text},
};

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
        source: section.several("source"),
        unless: section.several("unless"),
        ip_version: section.number("ip_version"),
        fragments: section.read("fragments", boolean),
        destination: section.several("destination"),
        length: section.several("length"),
        ttl: section.several("ttl"),
        dscp: section.several("dscp"),
        icmp_type: section.several("icmp_type"),
        payload: payload(section),
        payload_length: section.several("payload_length"),
        established: section.read("established", boolean),
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
    if section.has("established") {
        section.refuse(
            "established",
            "not cannot ask for connections: write established = false in match for packets of no connection, or established = true",
        );
    }
    Some(Box::new(fields(&mut section)))
}

fn payload(section: &mut Section) -> Option<Payload> {
    let mut section = section.inner("payload", "payload")?;
    let offset = section.count("offset");
    Some(Payload {
        // A number beyond `u8` is too far too, which is reported with the other problems.
        offset: offset.map_or(0, |offset| u8::try_from(offset).unwrap_or(u8::MAX)),
        bytes: section.text("bytes").unwrap_or(Hex(vec![0])),
        mask: section.text("mask"),
    })
}

/// Prints `match` as in the file.
pub fn show(matches: &Match) -> String {
    table([
        ("protocol", several(matches.protocol.as_slice())),
        ("destination_port", several(&matches.destination_port)),
        ("source_port", several(&matches.source_port)),
        ("tcp_flags", matches.tcp_flags.map(text)),
        ("source", several(&matches.source)),
        ("unless", several(&matches.unless)),
        ("ip_version", several(matches.ip_version.as_slice())),
        ("destination", several(&matches.destination)),
        ("length", several(&matches.length)),
        ("ttl", several(&matches.ttl)),
        ("dscp", several(&matches.dscp)),
        ("icmp_type", several(&matches.icmp_type)),
        ("payload", matches.payload.as_ref().map(show_payload)),
        ("payload_length", several(&matches.payload_length)),
        (
            "established",
            matches.established.map(|only| only.to_string()),
        ),
        ("not", matches.not.as_deref().map(show)),
        ("fragments", matches.fragments.map(|only| only.to_string())),
    ])
}

fn show_payload(payload: &Payload) -> String {
    table([
        ("offset", Some(payload.offset.to_string())),
        ("bytes", Some(text(&payload.bytes))),
        ("mask", payload.mask.as_ref().map(text)),
    ])
}

/// Prints one value, or an array; nothing if there is no value. Numbers have no quotes.
fn several(values: &[impl Display]) -> Option<String> {
    let values = values.iter().map(ToString::to_string);
    let written = values.map(|value| match value.parse::<u32>() {
        Ok(_) => value,
        Err(_) => text(value),
    });
    let mut written: Vec<_> = written.collect();
    match written.len() {
        0 | 1 => written.pop(),
        _ => Some(array(written)),
    }
}
