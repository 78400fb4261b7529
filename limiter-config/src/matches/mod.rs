//! `match`: the packets that a limit applies to.

mod compile;
mod fields;
mod names;
mod sets;
mod values;

use std::{net::IpAddr, str::FromStr};

use serde::{Deserialize, Serialize};

pub(super) use compile::check_count;
pub use fields::{Destination, Dscp, Hex, IcmpType, Payload};
pub(super) use sets::{set_name, set_of};
pub use values::{
    IpVersion, Lengths, Numbers, PortRange, Protocol, TcpFlags, Ttl, Vlan, flag_names,
};

use crate::{
    Invalid, ensure, invalid,
    reader::{self, DeValue, Keyed, Section, Setting, quoted, text},
};

crate::keys! {
    /// Conditions on packets: each given field narrows the match. An empty match accepts every IP packet.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Match("match", "in match = { ... } under [[limit]]") {
        /// Transport protocol: `"tcp"`, `"udp"`, `"icmp"`, `"icmpv6"` and others, or its number.
        protocol: Option<Protocol>, r#"a protocol as in "tcp", or its number"#;
        /// Destination port as in `53`, a range as in `"5300-5353"`, a service as in `"https"`, or an array of them.
        destination_port: Vec<PortRange>,
            r#"a port as in 53, a range as in "5300-5353", or an array of them"#;
        /// Source port, a range, a service, or an array of them.
        source_port: Vec<PortRange>,
            r#"a port as in 53, a range as in "5300-5353", or an array of them"#;
        /// TCP flags that must be set, as in `"syn"` or `"syn,ack"`. Without a slash, FIN, SYN, RST and ACK are
        /// compared: `"syn"` means SYN without ACK. A slash names the flags to compare, as in `"syn/syn,ack"`.
        tcp_flags: Option<TcpFlags>, r#"flags as in "syn" or "syn/syn,ack""#;
        /// A prefix as in `"192.0.2.0/24"`, the name of a list, or an array of them: the limit applies only to packets from
        /// sources in one of them, in both directions.
        source: Vec<Destination>, "a prefix, the name of a list, or an array of them";
        /// A prefix, the name of a list, or an array of them: the limit applies only to packets from sources in none of
        /// them, in both directions.
        unless: Vec<Destination>, "a prefix, the name of a list, or an array of them";
        /// Protected address: a prefix as in `"192.0.2.10"`, the name of a list, or an array of them. Text that can be
        /// read as a prefix is a prefix.
        destination: Vec<Destination>, "a prefix, the name of a list, or an array of them";
        /// Version of IP: `4` or `6`.
        ip_version: Option<IpVersion>, "4 or 6";
        /// Length of the IP packet in bytes (of a fragment: its own length): a number as in `60`, a range as in
        /// `"0-100"` or `"1200-"`, or an array of them. Senders can make a packet longer by IP options and extension
        /// headers: `payload_length` does not count these.
        length: Vec<Lengths>,
            r#"bytes as in 60, a range as in "0-100" or "1200-", or an array of them"#;
        /// Bytes behind the header of TCP, UDP, ICMP or ICMPv6, by the lengths in the headers: a number, a range as in
        /// `"0-100"`, or an array of them. Fragments match, because they do not show the length of the datagram. Other
        /// protocols do not match.
        #[serde(default)]
        payload_length: Vec<Lengths>,
            r#"bytes as in 60, a range as in "0-100" or "1200-", or an array of them"#;
        /// `true`: only packets of connections of the host's own sockets, also if `exempt` has `"established"`.
        /// `false`: only other packets. Later fragments match both, because they show no ports. Not in `not`.
        #[serde(default)]
        established: Option<bool>;
        /// `true`: only packets that no limit without `other` matches, as in `match = "other"`. A packet whose fields cannot be
        /// seen, such as a later fragment, meets both: the limits that could match it, and this one. Not in `not`.
        #[serde(default)]
        other: bool, "true";
        /// VLAN: the id of the outermost tag (802.1Q or 802.1ad) whose id is not 0, as in `20`, a range as in `"100-199"`,
        /// or an array of them. Untagged packets do not match. In XDP mode, the program does not see a tag that the card
        /// takes off the frame (`ethtool -K IFACE rxvlan off`).
        #[serde(default)]
        vlan: Vec<Vlan>, r#"a VLAN as in 20, a range as in "100-199", or an array of them"#;
        /// TTL (IPv6: hop limit): a number, a range as in `"0-5"`, or an array of them.
        ttl: Vec<Ttl>, r#"a number as in 255, a range as in "0-5", or an array of them"#;
        /// DSCP: a name as in `"ef"`, a number from 0 to 63, a range, or an array of them.
        dscp: Vec<Dscp>, r#"a DSCP as in "ef" or 46, or an array of them"#;
        /// Type of an ICMP or ICMPv6 message: a name as in `"echo-request"`, which means the type of both, a number, or
        /// an array of them.
        icmp_type: Vec<IcmpType>, r#"a type as in "echo-request" or 13, or an array of them"#;
        /// Bytes behind the UDP or TCP header, as in `{ offset = 0, bytes = "ff ff ff ff 54" }`: up to 8 bytes in
        /// hexadecimal, at an offset up to 56. With `mask = "ff 0f"`, only these bits are compared.
        payload: Option<Payload>, r#"a table as in { offset = 0, bytes = "ff ff 54" }"#;
        /// Packets that the limit does not apply to, as in `{ source_port = 53 }`: those that match all fields of this
        /// table. It takes all other fields of `match`.
        not: Option<Box<Match>>, "a table as in { source_port = 53 }";
        /// `true`: only fragments. `false`: only packets that are not fragments.
        fragments: Option<bool>;
    }
}

/// Reads and prints `not`, which has the other fields of `match`.
impl Setting for Box<Match> {
    fn read(section: &mut Section, key: &str) -> Option<Self> {
        let mut section = section.inner(key, Match::KEYS)?;
        for (key, why) in [
            (
                "not",
                "a negation within a negation is not possible: write these fields in match",
            ),
            (
                "established",
                "not cannot ask for connections: write established = false in match for packets of no connection, or established = true",
            ),
            (
                "other",
                "not cannot ask for other limits: write other = true in match, or leave it out",
            ),
        ] {
            if section.has(key) {
                section.refuse(key, why);
            }
        }
        let mut matches = Match::default();
        matches.read_keys(&mut section);
        Some(Self::new(matches))
    }

    fn written(&self) -> Option<String> {
        (**self).written()
    }

    fn words(&self) -> String {
        (**self).words()
    }
}

/// Reads and prints a match: a table, or `"other"` for packets that no other limit matches.
#[derive(Clone, Debug)]
pub(super) struct Written(Match);

crate::read_as!(Written: Match);

/// The match that a word in place of a table stands for.
const OTHER: &str = "other";

impl Setting for Written {
    fn read(section: &mut Section, key: &str) -> Option<Self> {
        let value = section.table.get(key)?.get_ref();
        if !matches!(value, DeValue::String(_)) {
            return Match::read(section, key).map(Self);
        }
        let word = |text: &str| match text {
            OTHER => Ok(Self(Match::others())),
            _ => Err(format!(
                "'{text}' is no match: write \"other\" for packets that no other limit matches, or a table as in {{ protocol = \"udp\", destination_port = 53 }}"
            )),
        };
        section.read(key, |value| text(value, word))
    }

    fn written(&self) -> Option<String> {
        match self.0 == Match::others() {
            true => Some(quoted(OTHER)),
            false => self.0.written(),
        }
    }

    fn words(&self) -> String {
        match self.0 == Match::others() {
            true => OTHER.to_owned(),
            false => self.0.words(),
        }
    }
}

crate::keys! {
    /// A match on a line of its own.
    struct Alone("a match", "as in { protocol = \"udp\" }") {
        /// The match.
        matches ("match"): Match as Written, r#"a table as in { protocol = "udp", destination_port = 53 }"#;
    }
}

/// Reads a match as in a file, with or without braces, or `other`. Lists that it names are not looked up.
impl FromStr for Match {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        if text == OTHER {
            return Ok(Self::others());
        }
        // Another line could have other keys.
        ensure!(
            !text.contains(['\n', '\r']),
            "a match has one line: write it as in {{ protocol = \"udp\", destination_port = 53 }}"
        );
        let is_table = text.starts_with('{');
        let line = match is_table {
            true => format!("match = {text}"),
            false => format!("match = {{ {text} }}"),
        };
        let read = reader::parse(
            &line,
            &[Self::KEYS],
            |root, mistakes| {
                let mut alone = Alone::default();
                alone.read_keys(&mut Section::new(root, Alone::KEYS, 1, mistakes));
                alone.matches
            },
            |_, _, _| (),
        );
        read.map_err(|mistakes| {
            let first = mistakes.into_iter().next();
            invalid!("{}", first.map_or_else(String::new, |first| first.message))
        })
    }
}

impl Match {
    /// Packets that no other limit matches.
    pub fn others() -> Self {
        Self {
            other: true,
            ..Self::default()
        }
    }

    /// Returns true if this matches every IP packet.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if packets from `source` have the wanted version of IP.
    pub fn holds_version_of(&self, source: IpAddr) -> bool {
        let is_v4 = |version| version == IpVersion::V4;
        self.ip_version
            .is_none_or(|version| is_v4(version) == source.is_ipv4())
    }

    /// Returns true if this names the list.
    pub fn names(&self, list: &str) -> bool {
        let list = Destination::List(list.to_owned());
        let places = [&self.source, &self.unless, &self.destination];
        places.iter().any(|places| places.contains(&list))
    }

    /// Returns true if the lists that the source is on decide.
    pub fn names_sources(&self) -> bool {
        !(self.source.is_empty() && self.unless.is_empty())
    }

    /// This match, and the one in `not`.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        [Some(self), self.not.as_deref()].into_iter().flatten()
    }

    /// Names of the sets of prefixes that this and `not` have as sources and destinations: their texts.
    pub fn sets(&self) -> impl Iterator<Item = String> {
        let places = |matches: &Self| {
            let places = [&matches.source, &matches.unless, &matches.destination];
            places.map(|places| set_name(places))
        };
        self.all().flat_map(places).flatten()
    }
}
