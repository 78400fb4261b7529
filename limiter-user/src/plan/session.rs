//! Predicts the effect of limits on an open SSH session. Asks the policy, with packets like the session's.

use std::net::IpAddr;

use limiter_common::policy::verdict::Reason;

use super::{
    capture::{Frame, Link},
    replay::{Compiled, model::Model},
};
use crate::config::{Limit, Settings};

/// An SSH session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Address and port of the SSH client.
    pub client: (IpAddr, u16),
    /// Address and port of this host.
    pub server: (IpAddr, u16),
}

/// The fate of a session's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No limit can drop the packets.
    Free,
    /// This limit can drop the packets.
    Limited(Box<Limit>),
    /// The deny list drops the packets.
    Denied,
}

impl Session {
    /// Reads the value of `SSH_CONNECTION`: `<client> <port> <server> <port>`.
    pub fn parse(value: &str) -> Option<Self> {
        let words: Vec<&str> = value.split(' ').collect();
        let [client, client_port, server, server_port] = words[..] else {
            return None;
        };
        Some(Self {
            client: (address(client)?, client_port.parse().ok()?),
            server: (address(server)?, server_port.parse().ok()?),
        })
    }

    /// The fate of the session's packets under these settings.
    pub fn fate(&self, settings: &Settings) -> Fate {
        if settings.shadow {
            return Fate::Free;
        }
        // The session is one source, which needs little room and is not new.
        let small = Settings {
            max_sources: 64,
            new_sources: None,
            ..settings.clone()
        };
        let Ok(compiled) = Compiled::new(&small) else {
            return Fate::Free;
        };
        // A limit may match short packets only, or long ones.
        match fate_of(&self.segment(0), &compiled) {
            Fate::Free => fate_of(&self.segment(1_400), &compiled),
            held => held,
        }
    }

    /// An incoming segment of the open connection.
    fn segment(&self, payload: u16) -> Frame {
        const TCP: u8 = 6;
        const HEADER: u16 = 20;
        let length = HEADER + payload;
        let mut packet = Vec::new();
        match (self.client.0, self.server.0) {
            (IpAddr::V4(client), IpAddr::V4(server)) => {
                packet.extend([0x45, 0]);
                packet.extend((HEADER + length).to_be_bytes());
                packet.extend([0, 0, 0x40, 0, 64, TCP, 0, 0]);
                packet.extend(client.octets());
                packet.extend(server.octets());
            }
            (client, server) => {
                let octets = |address| match address {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                    IpAddr::V6(v6) => v6.octets(),
                };
                packet.extend([0x60, 0, 0, 0]);
                packet.extend(length.to_be_bytes());
                packet.extend([TCP, 64]);
                packet.extend(octets(client));
                packet.extend(octets(server));
            }
        }
        packet.extend(self.client.1.to_be_bytes());
        packet.extend(self.server.1.to_be_bytes());
        // Sequence numbers, a header of five words, ACK.
        packet.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        packet.resize(packet.len() + usize::from(payload), 0);
        Link::Raw.frame(&packet, packet.len() as u64)
    }
}

fn fate_of(frame: &Frame, compiled: &Compiled) -> Fate {
    let mut model = Model::new(&compiled.config, &compiled.prefixes, 1);
    match model.offer(&frame.bytes, frame.length, 1) {
        Reason::Deny => return Fate::Denied,
        Reason::Allowed => return Fate::Free,
        _ if compiled.settings.exempt.established => return Fate::Free,
        _ => {}
    }
    let holds = |slot| {
        let counters = model.limit(slot);
        compiled.config.plain != 0 || counters.admitted.packets + counters.dropped.packets > 0
    };
    let mut limits = (0..).zip(&compiled.settings.limits);
    let limit = limits.find(|(slot, limit)| !limit.shadow && holds(*slot));
    limit.map_or(Fate::Free, |(_, limit)| Fate::Limited(limit.clone().into()))
}

/// Parses an address, without its zone. An IPv4 address mapped into IPv6, as sockets for both families show it,
/// becomes IPv4.
fn address(text: &str) -> Option<IpAddr> {
    let address = text.split_once('%').map_or(text, |(address, _)| address);
    Some(address.parse::<IpAddr>().ok()?.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::parse;

    const LIMIT: &str = "[[limit]]\nname = \"it\"\nrate = \"5/s\"\n";

    /// The fate of a session from `client` to port 22 under a file. Returns the name of the limit, if there is one.
    fn fate_from(client: &str, file: &str) -> String {
        let settings = parse(file, Path::new("")).unwrap().settings;
        let session = Session::parse(&format!("{client} 50000 {client} 22")).unwrap();
        match session.fate(&settings) {
            Fate::Free => "free".to_owned(),
            Fate::Denied => "denied".to_owned(),
            Fate::Limited(limit) => limit.name,
        }
    }

    fn fate(file: &str) -> String {
        fate_from("192.0.2.7", file)
    }

    #[test]
    fn ssh_connection_variable_is_parsed() {
        for (value, client) in [
            ("198.51.100.7 50000 192.0.2.1 22", "198.51.100.7"),
            ("2001:db8::7 50000 2001:db8::1 22", "2001:db8::7"),
            (
                "::ffff:198.51.100.7 50000 ::ffff:192.0.2.1 22",
                "198.51.100.7",
            ),
            ("fe80::7%eth0 50000 fe80::1%eth0 22", "fe80::7"),
        ] {
            let session = Session::parse(value).unwrap();
            assert_eq!(session.client, (client.parse().unwrap(), 50_000), "{value}");
            assert_eq!(session.server.1, 22, "{value}");
        }
        for value in [
            "",
            "198.51.100.7 50000",
            "198.51.100.7 50000 192.0.2.1 x",
            "198.51.100.7 70000 192.0.2.1 22",
            "198.51.100.7 50000 192.0.2.1 22 9",
            "UNKNOWN 65535 UNKNOWN 65535",
        ] {
            assert_eq!(Session::parse(value), None, "{value}");
        }
    }

    #[test]
    fn session_is_limited_only_by_a_matching_limit() {
        let lists = "[lists]\nours = [\"192.0.2.0/24\"]\nothers = [\"192.0.2.8\"]\n";
        for (more, expected) in [
            ("", "it"),
            ("match = { protocol = \"tcp\" }", "it"),
            ("match = { protocol = \"udp\" }", "free"),
            ("match = { destination_port = [\"20-30\", 80] }", "it"),
            ("match = { destination_port = 80 }", "free"),
            ("match = { source_port = 50000 }", "it"),
            ("match = { tcp_flags = \"ack\" }", "it"),
            ("match = { tcp_flags = \"syn\" }", "free"),
            ("match = { source = \"ours\" }", "it"),
            ("match = { source = \"others\" }", "free"),
            ("match = { ip_version = 6 }", "free"),
            ("match = { fragments = true }", "free"),
            ("match = { length = \"1200-\" }", "it"),
            ("match = { length = \"0-100\" }", "it"),
            ("shadow = true", "free"),
        ] {
            assert_eq!(fate(&format!("{lists}{LIMIT}{more}")), expected, "{more}");
        }
        assert_eq!(fate_from("2001:db8::7", LIMIT), "it");
    }

    #[test]
    fn lists_and_exemptions_decide_before_limits() {
        let allow = "[lists]\nallow = [\"192.0.2.7\"]\n";
        let deny = "exempt = [\"established\"]\n[lists]\ndeny = [\"192.0.2.0/24\"]\n";
        for (file, expected) in [
            ("", "it"),
            ("shadow = true\n", "free"),
            ("exempt = [\"established\"]\n", "free"),
            ("exempt = [\"control\"]\n", "it"),
            (allow, "free"),
            (deny, "denied"),
            (&format!("{deny}allow = [\"192.0.2.0/25\"]\n"), "free"),
            (&format!("{allow}deny = [\"192.0.2.7\"]\n"), "denied"),
        ] {
            assert_eq!(fate(&format!("{file}{LIMIT}")), expected, "{file}");
        }
    }
}
