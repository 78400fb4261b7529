//! The output of `watch --json`: one packet that was dropped, would have been without shadow, or passed.

use std::net::IpAddr;

use limiter_common::{
    abi::{
        events::{ARP, Event as KernelEvent},
        rules::ANY,
    },
    policy::verdict::Reason,
    table::key::Words,
};
use limiter_config::{Protocol, key::ip, matches::flag_names};
use limiter_kernel::{Result, sys::clock};
use serde::Serialize;

/// A line of `watch --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Event {
    /// Time of the event, RFC 3339.
    pub time: String,
    /// Name of the interface.
    pub interface: String,
    /// Source address as in the packet; null if it is not known.
    pub source: Option<IpAddr>,
    /// Source port; null if the packet has none, or it cannot be read.
    pub source_port: Option<u16>,
    /// Destination address; null if it cannot be read.
    pub destination: Option<IpAddr>,
    /// Destination port; null if the packet has none, or it cannot be read.
    pub destination_port: Option<u16>,
    /// Transport protocol, by name or number, or `arp`; null if it is not known.
    pub protocol: Option<String>,
    /// Names of the TCP flags that are set; null if the packet is not TCP, or the flags cannot be read.
    pub tcp_flags: Option<Vec<&'static str>>,
    /// Length of the frame in bytes; of merged packets, the sum.
    pub length: u32,
    /// Number of packets: more than 1 if the kernel has merged them.
    pub packets: u32,
    /// The limit that refused the packet, or that has no room for its source, or the first that admitted it; null for other
    /// reasons.
    pub limit: Option<String>,
    /// `drop`, `would_drop` or `pass`.
    pub verdict: &'static str,
    /// Name of the reason, such as `limit`, `deny`, `new_source` or `unlimited`.
    pub reason: &'static str,
}

/// Converts an event of the program on an interface. `limit`: the limit in the event's slot.
pub fn event(interface: &str, limit: Option<&str>, emitted: &KernelEvent) -> Result<Event> {
    let time = humantime::format_rfc3339_micros(clock::wall(emitted.nanoseconds)?);
    let reason = Reason::from_number(emitted.reason);
    Ok(Event {
        time: time.to_string(),
        interface: interface.to_owned(),
        source: address(emitted.family, emitted.source),
        source_port: u16::try_from(emitted.source_port).ok(),
        destination: address(
            emitted.family * emitted.has_destination.min(1),
            emitted.destination,
        ),
        destination_port: u16::try_from(emitted.destination_port).ok(),
        protocol: protocol(emitted.protocol),
        tcp_flags: u8::try_from(emitted.flags).ok().map(flag_names),
        length: emitted.length,
        packets: emitted.packets,
        limit: limit.map(str::to_owned),
        verdict: match emitted.would_drop {
            0 if reason.is_some_and(Reason::passes) => "pass",
            0 => "drop",
            _ => "would_drop",
        },
        reason: reason.map_or("unknown", Reason::name),
    })
}

fn protocol(number: u32) -> Option<String> {
    match number {
        ANY => None,
        ARP => Some("arp".to_owned()),
        number => u8::try_from(number)
            .ok()
            .map(|number| Protocol(number).to_string()),
    }
}

fn address(family: u32, words: Words) -> Option<IpAddr> {
    (family != 0).then(|| ip(family, words))
}
