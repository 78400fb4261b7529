//! Predicts the effect of limits on an open SSH session. Asks the policy, with packets like the session's.

use std::net::IpAddr;

use etherparse::PacketBuilder;
use limiter_common::policy::verdict::Reason;
use limiter_config::{Limit, Settings, Unit};

use super::{
    capture::{Frame, Link},
    replay::Compiled,
};

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
        let Ok(compiled) = Compiled::connected(&small) else {
            return Fate::Free;
        };
        // A limit may match short packets only, or long ones.
        match fate_of(&self.segment(0), &compiled) {
            Fate::Free => fate_of(&self.segment(1_400), &compiled),
            held => held,
        }
    }

    /// An incoming segment of the open connection.
    fn segment(&self, payload: usize) -> Frame {
        let octets = |address| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        let packet = match (self.client.0, self.server.0) {
            (IpAddr::V4(client), IpAddr::V4(server)) => {
                PacketBuilder::ipv4(client.octets(), server.octets(), 64)
            }
            (client, server) => PacketBuilder::ipv6(octets(client), octets(server), 64),
        };
        let packet = packet.tcp(self.client.1, self.server.1, 1, u16::MAX).ack(1);
        let mut bytes = Vec::new();
        // Writing to memory does not fail.
        let _ = packet.write(&mut bytes, &vec![0; payload]);
        Link::Raw.frame(&bytes, bytes.len() as u64)
    }
}

fn fate_of(frame: &Frame, compiled: &Compiled) -> Fate {
    let mut model = compiled.model(1).connected();
    match model.offer(&frame.bytes, frame.length, 1) {
        Reason::Deny => return Fate::Denied,
        Reason::Allowed | Reason::Established => return Fate::Free,
        _ => {}
    }
    let holds = |slot| {
        let counters = model.limit(slot);
        compiled.config.fast_path != 0 || counters.admitted.packets + counters.dropped.packets > 0
    };
    let mut limits = (0..).zip(&compiled.settings.limits);
    let limit = limits.find(|(slot, limit)| !limit.shadow && !is_generous(limit) && holds(*slot));
    limit.map_or(Fate::Free, |(_, limit)| Fate::Limited(limit.clone().into()))
}

/// Returns true if this limit on connections admits more than a session needs: a hundred long packets in a second.
fn is_generous(limit: &Limit) -> bool {
    const SECOND: u64 = 1_000_000_000;
    let needed = match limit.rate.unit {
        Unit::Packets => 100,
        Unit::Bytes => 150_000,
    };
    limit.matches.established == Some(true) && limit.rate.tokens_in(SECOND) >= needed
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
    use limiter_config::file::parse;

    #[test]
    fn ssh_connection_variable_is_parsed() {
        for (client, expected) in [
            ("198.51.100.7 50000", "198.51.100.7"),
            ("2001:db8::7 50000", "2001:db8::7"),
            ("::ffff:198.51.100.7 50000", "198.51.100.7"),
            ("fe80::7%eth0 50000", "fe80::7"),
        ] {
            let session = Session::parse(&format!("{client} 192.0.2.1 22")).unwrap();
            assert_eq!(session.client, (expected.parse().unwrap(), 50_000));
            assert_eq!(session.server.1, 22, "{client}");
        }
        for end in ["", " 192.0.2.1 x", " 192.0.2.1 70000", " 192.0.2.1 22 9"] {
            let value = format!("198.51.100.7 50000{end}");
            assert_eq!(Session::parse(&value), None, "{value}");
        }
    }

    /// The fate of a session from 192.0.2.7 to port 22, with lines above and in a limit. Lists and exemptions decide
    /// first.
    #[test]
    fn session_is_limited_only_by_a_matching_limit() {
        let cases = r#"
 => => limited
shadow = true => => free
exempt = "established" => => free
exempt = "control" => => limited
exempt = "established" => match = { established = true } => limited
 => match = { established = true } => limited
 => match = { established = false } => free
[lists]\nallow = ["192.0.2.7"] => => free
exempt = "established"\n[lists]\ndeny = ["192.0.2.0/24"] => => denied
[lists]\ndeny = ["192.0.2.0/24"]\nallow = ["192.0.2.0/25"] => => free
[lists]\nallow = ["192.0.2.7"]\ndeny = ["192.0.2.7"] => => denied
[lists]\nours = ["192.0.2.0/24"] => match = { source = "ours" } => limited
[lists]\nothers = ["192.0.2.8"] => match = { source = "others" } => free
 => match = { protocol = "tcp", destination_port = [20, 22], source_port = 50000 } => limited
 => match = { destination_port = 80 } => free
 => match = { tcp_flags = "ack" } => limited
 => match = { tcp_flags = "syn" } => free
 => match = { ip_version = 6 } => free
 => match = { fragments = true } => free
 => match = { length = "1200-" } => limited
 => match = { length = "0-100" } => limited
 => shadow = true => free
"#;
        for case in cases.lines().skip(1) {
            let parts: Vec<_> = case.split("=> ").map(str::trim).collect();
            let [above, limit, expected] = parts[..] else {
                panic!("{case}");
            };
            let above = above.replace("\\n", "\n");
            let text = format!("{above}\n[[limit]]\nname = \"a\"\nrate = 5\n{limit}");
            let settings = parse(&text, Path::new("")).unwrap().settings;
            let session = Session::parse("192.0.2.7 50000 192.0.2.1 22").unwrap();
            let fate = match session.fate(&settings) {
                Fate::Free => "free",
                Fate::Limited(_) => "limited",
                Fate::Denied => "denied",
            };
            assert_eq!(fate, expected, "{case}");
        }
    }
}
