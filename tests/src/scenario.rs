//! Configurations whose cost per packet is measured: timed by the benchmark, counted by the test `instructions`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use limiter_config::Settings;
use serde::Serialize;

use crate::{packet::Frame, settings};

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4. Sources are addresses.
    Ipv4,
    /// IPv6. Sources are /64 networks.
    Ipv6,
}

impl Family {
    /// Source number 0. The others follow: in IPv4, in 128.0.0.0/2, from which the stack accepts packets; in IPv6, in a
    /// documentation network.
    pub fn first_source(self) -> IpAddr {
        match self {
            Self::Ipv4 => Ipv4Addr::new(128, 0, 0, 0).into(),
            Self::Ipv6 => Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0xffff, 0xffff).into(),
        }
    }
}

/// The verdict on the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Each source has already sent its one packet per hour.
    Dropped,
    /// No source comes near a thousand million packets per second.
    Passed,
}

/// Both verdicts, in the order of the columns of tables.
pub const VERDICTS: [Verdict; 2] = [Verdict::Dropped, Verdict::Passed];

/// Number of scenarios in [`COUNTED`] that are policy alone. The others use the kernel's lists and sockets.
pub const POLICY: usize = 3;

/// A configuration file for a verdict, besides the keys about the table.
pub type File = fn(Verdict) -> String;

/// The counted scenarios, with names for people.
pub const COUNTED: [(&str, File); 5] = [
    ("one limit", one),
    ("and eight idle ones", eight),
    ("nested: source, /24, interface", nested),
    ("and 1,000 allowed prefixes", |verdict| {
        allow(verdict, &prefixes(Family::Ipv4, 1_000))
    }),
    ("and `established` exempt", established),
];

/// The settings of a counted scenario, and its packet. The second packet and all later ones get the verdict.
pub fn counted(scenario: usize, verdict: Verdict) -> (Settings, Vec<u8>) {
    let file = COUNTED[scenario].1(verdict);
    let settings = settings(&format!("new_sources = \"none\"\n{file}"));
    (settings, Frame::from(Family::Ipv4.first_source()).bytes())
}

/// One limit by source.
pub fn one(verdict: Verdict) -> String {
    source(verdict, "")
}

/// The limit by source, and eight more on UDP ports next to the one that the packets go to.
pub fn eight(verdict: Verdict) -> String {
    let of_port = |port| {
        let matches = format!("{{ protocol = \"udp\", destination_port = {port} }}");
        // One bucket each, so that they take no room of the table.
        let lines = format!("match = {matches}\nkey = \"interface\"");
        limit(verdict, &format!("port-{port}"), &lines)
    };
    one(verdict) + &(1..=8).map(of_port).collect::<String>()
}

/// The limit by source, and limits of the source's network and of the interface, which no source reaches.
pub fn nested(verdict: Verdict) -> String {
    let high = "rate = \"1G/s\"\nburst = \"1G\"";
    let wider = [("network", "/24,/48"), ("interface", "interface")]
        .map(|(name, key)| format!("[[limit]]\nname = \"{name}\"\nkey = \"{key}\"\n{high}\n"));
    one(verdict) + &wider.concat()
}

/// The limit by source, and these allowed prefixes.
pub fn allow(verdict: Verdict, prefixes: &[String]) -> String {
    format!("[lists]\nallow = {prefixes:?}\n{}", one(verdict))
}

/// The limit by source, with established connections exempt.
pub fn established(verdict: Verdict) -> String {
    format!("exempt = [\"established\"]\n{}", one(verdict))
}

/// The limit by source, with these lines.
pub fn source(verdict: Verdict, lines: &str) -> String {
    limit(verdict, "source", lines)
}

/// A limit with the rate for the verdict, and these lines.
fn limit(verdict: Verdict, name: &str, lines: &str) -> String {
    let (rate, burst) = match verdict {
        Verdict::Dropped => ("1/h", "1"),
        Verdict::Passed => ("1G/s", "1G"),
    };
    format!("[[limit]]\nname = \"{name}\"\nrate = \"{rate}\"\nburst = \"{burst}\"\n{lines}\n")
}

/// Consecutive prefixes in 10.0.0.0/8 or 2001:db8::/32.
pub fn prefixes(family: Family, count: u32) -> Vec<String> {
    let prefix = |number: u32| match family {
        Family::Ipv4 => {
            let [_, b, c, d] = (number * 16).to_be_bytes();
            format!("10.{b}.{c}.{d}/28")
        }
        Family::Ipv6 => format!("2001:db8:{:x}:{:x}::/64", number >> 16, number & 0xffff),
    };
    (0..count).map(prefix).collect()
}

/// Single addresses, every other one, the first of them right behind source number 0.
pub fn neighbours(family: Family, count: u32) -> Vec<String> {
    let address = |number: u32| match family.first_source() {
        IpAddr::V4(first) => {
            IpAddr::from(Ipv4Addr::from(u32::from(first) + 2 * number + 1)).to_string()
        }
        IpAddr::V6(first) => IpAddr::from(Ipv6Addr::from(
            u128::from(first) + 2 * u128::from(number) + 1,
        ))
        .to_string(),
    };
    (0..count).map(address).collect()
}
