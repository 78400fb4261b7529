//! Checks that no form of a packet that the host accepts gets a higher rate than the plain form.
//!
//! Many sources send random forms to real listeners behind real limits and lists. Each source has one form and its own
//! bucket.

mod form;
mod listeners;

use std::{
    cell::Cell,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::Command,
    time::Instant,
};

use fastrand::Rng;

use crate::{
    hosts::{CLIENT, CLIENT_IPV6, Hosts, SERVER, SERVER_IPV6, on},
    packet::{Ends, Segment},
    random::one,
    raw::Raw,
};
use form::Form;
pub use form::checksum;
use listeners::{Listeners, PORT};

/// Tokens of a bucket. No token is refilled during the test.
const BURST: u64 = 5;
/// Datagrams of each source, and their bytes, for limits on datagrams and on bits.
const SENT: (u16, usize) = (20, 200);
const SENT_OF_BITS: (u16, usize) = (120, 880);
/// Bytes of a bucket in a limit on bits, and its refill per second.
const BYTES: (f64, f64) = (66e3, 125.0);
/// Sources of each family in a round.
const SOURCES: u16 = 24;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A configuration, and its verdict on a source.
#[derive(Debug)]
struct Rule {
    text: String,
    protocol: u8,
    allows: Allows,
}

#[derive(Clone, Copy, Debug)]
enum Allows {
    Nothing,
    Datagrams,
    Bytes,
}

fn rules() -> [Rule; 14] {
    use Allows::{Bytes, Datagrams, Nothing};
    const DENY: &str = "[lists]\ndeny = [\"198.51.100.0/24\", \"2001:db8:66::/48\"]\n\
        [[limit]]\nname = \"a\"\nmatch = { protocol = \"udp\", destination_port = 1 }\nrate = \"1/h\"\n";
    let denied = |protocol| Rule {
        text: DENY.to_owned(),
        protocol,
        allows: Nothing,
    };
    let limit = |protocol, allows, matches: &str| {
        let quota = match allows {
            Bytes => "rate = \"1kbit\"\nburst = \"66kb\"",
            _ => "rate = \"1/h\"\nburst = 5",
        };
        let text = format!("[[limit]]\nname = \"a\"\nmatch = {{ {matches} }}\n{quota}\n");
        Rule {
            text,
            protocol,
            allows,
        }
    };
    const SYN: &str = "protocol = \"tcp\", destination_port = 9000, tcp_flags = \"syn\"";
    [
        limit(UDP, Datagrams, ""),
        limit(TCP, Datagrams, ""),
        denied(UDP),
        denied(TCP),
        limit(UDP, Datagrams, "protocol = \"udp\""),
        limit(TCP, Datagrams, "protocol = \"tcp\""),
        limit(
            UDP,
            Datagrams,
            "protocol = \"udp\", destination_port = [53, 9000]",
        ),
        limit(TCP, Datagrams, "source_port = \"1024-65535\""),
        limit(TCP, Datagrams, SYN),
        // The program's tables by field do not decide these: it compares each field.
        limit(
            UDP,
            Datagrams,
            "protocol = \"udp\", destination_port = 9000, ttl = \"0-255\"",
        ),
        limit(TCP, Datagrams, &format!("{SYN}, ttl = \"0-255\"")),
        limit(UDP, Bytes, ""),
        limit(UDP, Bytes, "protocol = \"udp\""),
        limit(UDP, Bytes, "protocol = \"udp\", destination_port = 9000"),
    ]
}

/// The result of the runs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Forms tried under a configuration.
    pub cases: u64,
    /// Forms that the host accepted.
    pub accepted: u64,
    /// Forms that got too much, and plain forms that did not get exactly their burst.
    pub wrong: Vec<String>,
}

/// Two hosts, the listeners on one of them, and a raw socket for any frame.
struct Testbed {
    hosts: Hosts,
    listeners: Listeners,
    wire: Raw,
    /// Number of datagrams sent, which identifies them.
    sent: Cell<u16>,
}

/// Runs `rounds` rounds with this seed.
pub fn run(seed: u64, rounds: usize) -> Report {
    let testbed = Testbed::new();
    let mut report = Report::default();
    let rules = rules();
    for round in 0..rounds {
        let rule = &rules[round % rules.len()];
        // Every rule runs in both modes.
        let mode = ["native", "generic"][round / rules.len() % 2];
        let mut rng = Rng::with_seed(seed.wrapping_add(round as u64));
        testbed.round(rule, mode, &mut rng, &mut report);
    }
    report
}

impl Testbed {
    fn new() -> Self {
        let hosts = Hosts::of_both_families();
        on(&hosts.server, || {
            for (net, via) in [
                ("198.51.100.0/24", CLIENT),
                ("2001:db8:66::/48", CLIENT_IPV6),
            ] {
                ip(&["route", "add", net, "via", &via.to_string()]);
            }
            // Adds the tunnels that this kernel supports.
            for kind in ["ipip", "sit", "ip6tnl"] {
                let _ = Command::new("ip")
                    .args(["link", "add", "tunnel", "type", kind])
                    .output();
            }
            for (file, value) in [
                // Incomplete datagrams must not evict other datagrams.
                ("ipv4/ipfrag_high_thresh", "268435456"),
                ("ipv6/ip6frag_high_thresh", "268435456"),
                // A repeated answer could be counted in another round.
                ("ipv4/tcp_synack_retries", "0"),
            ] {
                std::fs::write(format!("/proc/sys/net/{file}"), value).unwrap();
            }
        });
        Self {
            listeners: Listeners::on(&hosts),
            wire: Raw::to_send(&hosts.client),
            sent: Cell::new(0),
            hosts,
        }
    }

    fn round(&self, rule: &Rule, mode: &str, rng: &mut Rng, report: &mut Report) {
        let malformed = *one(rng, &["drop", "pass"]);
        let exempt = *one(rng, &["", "exempt = [\"control\", \"established\"]\n"]);
        let text = format!(
            "mode = \"{mode}\"\nmalformed = \"{malformed}\"\n{exempt}interfaces = [\"eth0\"]\n{}",
            rule.text
        );
        let (sent, most) = match rule.allows {
            Allows::Bytes => SENT_OF_BITS,
            _ => SENT,
        };
        let payload = rng.usize(3 * most / 4..=most);
        let forms: Vec<_> = (0..2 * SOURCES)
            .map(|index| {
                let is_ipv4 = index % 2 == 0;
                // The first form of each family is plain.
                let form = if index < 2 {
                    Form::default()
                } else {
                    Form::random(rng, is_ipv4, payload)
                };
                (self.ends(is_ipv4, index / 2), form)
            })
            .collect();
        for (ends, form) in &forms {
            self.send(ends, form, rule.protocol, payload);
        }
        let accepted = self.listeners.arrived(rule.protocol);
        self.hosts.attach_file(&text);
        let start = Instant::now();
        for (ends, form) in &forms {
            for _ in 0..sent {
                self.send(ends, form, rule.protocol, payload);
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let arrived = self.listeners.arrived(rule.protocol);
        self.hosts.run("detach eth0");
        for (index, (ends, form)) in forms.iter().enumerate() {
            report.cases += 1;
            report.accepted += u64::from(accepted.contains_key(&ends.from.ip()));
            let (datagrams, bytes) = arrived.get(&ends.from.ip()).copied().unwrap_or_default();
            let about = format!(
                "{datagrams} datagrams, {bytes} bytes from {} as {form:?}\n{text}",
                ends.from.ip()
            );
            let is_right = match rule.allows {
                Allows::Nothing => datagrams == 0,
                // The first forms are plain.
                Allows::Datagrams if index < 2 => datagrams == BURST,
                Allows::Datagrams => datagrams <= BURST,
                Allows::Bytes => bytes as f64 <= BYTES.0 + BYTES.1 * seconds,
            };
            if !is_right {
                report.wrong.push(about);
            }
        }
    }

    fn ends(&self, is_ipv4: bool, index: u16) -> Ends {
        let (from, destination): (IpAddr, _) = if is_ipv4 {
            (Ipv4Addr::new(198, 51, 100, index as u8 + 1).into(), SERVER)
        } else {
            (
                Ipv6Addr::new(0x2001, 0xdb8, 0x66, index + 1, 0, 0, 0, 1).into(),
                SERVER_IPV6,
            )
        };
        Ends {
            macs: (self.hosts.client.mac, self.hosts.server.mac),
            from: SocketAddr::new(from, 0),
            to: SocketAddr::new(destination, PORT),
        }
    }

    /// Sends one datagram from its own port: TCP does not answer a repeated segment at once.
    fn send(&self, ends: &Ends, form: &Form, protocol: u8, payload: usize) {
        let number = self.sent.get();
        self.sent.set((number + 1) % 40_000);
        let ends = ends.at(20_000 + number, PORT);
        let plain = match protocol {
            TCP => ends.tcp(Segment::Syn),
            _ => ends.udp(&vec![0x5a; payload]),
        };
        let headers = 14 + if ends.from.is_ipv4() { 20 } else { 40 };
        for frame in form.frames(&ends, protocol, &plain[headers..], number) {
            self.wire.send(&frame);
        }
    }
}

/// Sends SYNs of IPv4 to a limit with a bucket for each port: plain ones until the bucket is empty, and then SYNs in two
/// fragments, the first of which has `length` bytes. Returns the number of SYNs that the host has answered: in two
/// fragments without the limit, and plain and in two fragments under the limit.
pub fn short_first_fragments(length: usize) -> [u64; 3] {
    let testbed = Testbed::new();
    let ends = testbed.ends(true, 0);
    let answered = || {
        let arrived = testbed.listeners.arrived(TCP);
        arrived.get(&ends.from.ip()).map_or(0, |(syns, _)| *syns)
    };
    let send = |from: u16, is_plain: bool| {
        for number in from..from + SENT.0 {
            let ends = ends.at(20_000 + number, PORT);
            let syn = ends.tcp(Segment::Syn);
            if is_plain {
                testbed.wire.send(&syn);
                continue;
            }
            for frame in form::short_first(&ends, &syn[34..], number, length) {
                testbed.wire.send(&frame);
            }
        }
        answered()
    };
    let unlimited = send(0, false);
    testbed.hosts.attach_file(
        "interfaces = [\"eth0\"]\n[[limit]]\nname = \"a\"\nkey = \"/32,/64,destination_port\"\n\
         match = { tcp_flags = \"syn\" }\nrate = \"1/h\"\nburst = 5\n",
    );
    [unlimited, send(100, true), send(200, false)]
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {output:?}");
}
