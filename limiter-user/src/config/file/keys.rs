//! The keys of the file's tables, and the nearest one to a misspelled key.

use super::{packets, value::nearest};

/// The keys of a table.
#[derive(Debug)]
pub struct Keys {
    /// The table's name in messages.
    pub table: &'static str,
    /// The place in the file for the table's keys.
    pub place: &'static str,
    /// Each key with its meaning, one on a line. Text between backquotes is as in files.
    pub known: &'static str,
}

/// All tables, in the order of the manual page.
pub static ALL: [&Keys; 8] = [
    &TOP,
    &CONTROL,
    &LIST,
    &LIMIT,
    &packets::MATCH,
    &packets::PATTERN,
    &ADAPTIVE,
    &WHEN,
];

/// The keys above all headers.
pub static TOP: Keys = Keys {
    table: "the file",
    place: "at the top of the file, above [lists] and [[limit]]",
    known: r#"
interfaces: Interfaces to attach to: `"eth0"`, or an array. Interfaces on the command line of `attach` replace them.
mode: XDP mode of the program: `"auto"` (default: native, or generic if native mode fails), `"native"` or `"generic"`. Fixed at `attach`.
max_sources: Number of sources that the table holds: `65536` (default), `"64k"`. Fixed at `attach`.
new_sources: Rate at which new sources may enter the table: `"10k/s"` (default), or `"none"` for no limit.
new_sources_burst: Number of new sources that may enter the table at once. Default: 6.5536 seconds of `new_sources`.
second_chance: `true` (default): a new source that was refused and comes again 0.3 to 8 seconds later has a budget of its own, a quarter of `new_sources`.
exempt: Packets that are exempt from the limits: `"established"` (packets of connections of the host's own sockets), `"control"` (ARP, neighbour discovery and DHCP, which have limits of their own), or an array of both. Default: none.
shadow: `true`: count packets that would be dropped, but drop nothing on the whole interface. Default: `false`.
malformed: Verdict for malformed IP packets (truncated header, wrong version, bad header length): `"drop"` (default) or `"pass"`.
fleet: Name of the fleet. Hosts with the same name share the limits and lists of scope `"fleet"`, through `limiter agent`.
control: The header `[control]`: settings of the limits on control traffic. It needs `"control"` in `exempt`.
lists: The header `[lists]`. Each line below it is a list: its name and an array of prefixes. `allow` and `deny` are decided before any limit. Other names are tiers, for `source` and `unless` in `match`.
limit: The header `[[limit]]` begins a limit; at most 32. A packet passes only if every limit that matches it admits it.
"#,
};

pub static CONTROL: Keys = Keys {
    table: "[control]",
    place: "under [control]",
    known: r#"
rate: Rate of control packets from one source: `"100/s"` (default).
burst: Number of control packets that one source may send at once. Default: two seconds of `rate`.
total: Rate of control packets from all sources of the interface together: `"10k/s"` (default), or `"none"` for no total. The burst is one second of it.
"#,
};

pub static LIMIT: Keys = Keys {
    table: "a limit",
    place: "under [[limit]]",
    known: r#"
name: Name of the limit. Required, and different for each limit.
match: Packets that the limit applies to, as in `{ protocol = "udp", destination_port = 53 }`. Default: all IP packets.
key: Parts of a packet that select its bucket. `"/32,/64"` (default): that many bits of the source address, for IPv4 and IPv6. `"interface"`: one bucket for all packets. `"destination"`, `"source + destination"`, with prefix lengths as in `"source/24,/48 + destination/32,/64"` (default: `/32,/64` for sources, whole addresses for destinations). `"flow"`: addresses, protocol and ports. With `,destination_port` at the end of any but `"flow"`, each destination port has its own bucket.
rate: Rate at which a bucket refills: `"5/s"`, `"300/m"`, `"1k/s"` in packets; `"64kbit"`, `"10mbit"` in bits per second. Required.
burst: Size of a bucket: packets (`10`, `"2k"`), or bytes (`"64kb"`) for a rate in bits. Default: one second of `rate`, and at least one packet or one frame.
cost: Tokens that a packet takes, as in `2`, with a `rate` in packets. Default: one, or the length of the packet in bytes with a `rate` in bits.
algorithm: `"token-bucket"` (default): a bucket refills continuously. `"fixed-window"`: it refills at the start of each period.
hold: Time as in `"10m"`: the first packet that the limit refuses puts the bucket in debt for that time, so that the limit refuses all its packets until then. Default: none. It needs a key with the source, and has no effect in shadow. For addresses that many people share, it punishes all of them.
adaptive: Signals of the host's load that lower `rate` and `burst` while `limiter adapt` runs, as in `{ floor = "10%", when = { cpu_pressure = "20%" } }`. Default: none. For token buckets of scope `"host"` without `hold`.
proof: `"syn-cookie"`: a SYN of a new source that would be refused as such, to a listener of the host, is answered by a SYN cookie, and a source that returns the cookie enters the table from a budget of its own. Default: `"none"`. It needs a key of sources, `new_sources`, Linux 6.1, and `net.ipv4.tcp_syncookies=2`.
shadow: `true`: the limit counts packets that it would drop, but drops nothing. Default: `false`.
scope: `"host"` (default), or `"fleet"`: one limit per source for all hosts of the fleet together.
"#,
};

/// The keys of `adaptive`.
pub static ADAPTIVE: Keys = Keys {
    table: "adaptive",
    place: "in adaptive = { ... } under [[limit]]",
    known: r#"
floor: Smallest part of `rate` and `burst` that is left: `"10%"` (default). At the floor, a full bucket must have room for one packet.
when: Signals with the values above which the rate falls, as in `{ cpu_pressure = "20%" }`. Required.
"#,
};

/// The keys of `when`.
pub static WHEN: Keys = Keys {
    table: "when",
    place: "in when = { ... } in adaptive",
    known: r#"
cpu_pressure: Part of the time in which tasks waited for a CPU, as in `"20%"` (`/proc/pressure/cpu`).
irq_pressure: Part of the time in which tasks waited for interrupts, as in `"10%"` (`/proc/pressure/irq`, Linux 6.1).
softnet_drops: Packets that CPUs dropped because their backlog was full, as in `"100/s"` (`/proc/net/softnet_stat`).
softnet_squeezes: Polls of network devices that ended with packets left, as in `"100/s"`.
listen_overflows: Connections that listening sockets had no room for, as in `"10/s"`, in the network namespace of `limiter adapt`.
probe: Address of a server, and the time within which nine of ten answers must come: `"http://127.0.0.1/health > 200ms"`, or `"tcp://127.0.0.1:25 > 50ms"` for a connection.
"#,
};

/// The keys of `{ file = "path" }` and `{ scope = "fleet", prefixes = [] }`.
pub static LIST: Keys = Keys {
    table: "a list",
    place: "in a list under [lists], as in { file = \"path\" }",
    known: r#"
file: Path of a text file with one prefix per line, relative to the folder of the configuration file. `#` begins a comment.
prefixes: The prefixes, as an array.
scope: `"host"` (default), or `"fleet"`: all hosts of the fleet share the list.
"#,
};

impl Keys {
    /// The message for a key that this table does not have.
    pub fn unknown(&self, key: &str) -> String {
        let what = format!("'{}' is not a key of {}", key.escape_debug(), self.table);
        if let Some(place) = place_of(key) {
            return format!("{what}: write it {place}");
        }
        match self.nearest(key) {
            Some(known) => format!("{what}: did you mean '{known}'?"),
            None => format!(
                "{what}: write one of {}",
                self.names().collect::<Vec<_>>().join(", ")
            ),
        }
    }

    /// The known key nearest to a misspelled one.
    pub fn nearest(&self, key: &str) -> Option<&'static str> {
        nearest(key, self.names())
    }

    /// The keys with their meanings, which limiter.toml(5) prints.
    pub fn meanings(&self) -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
        self.known.lines().filter_map(|line| line.split_once(": "))
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.meanings().map(|(name, _)| name)
    }
}

/// The place where a key belongs.
pub fn place_of(key: &str) -> Option<&'static str> {
    match key {
        "control" => return Some("as [control], a header of its own"),
        "lists" => return Some("as [lists], a header of its own"),
        "limit" => return Some("as [[limit]], a header of its own"),
        _ => {}
    }
    let home = [&TOP, &LIMIT, &packets::MATCH, &CONTROL, &ADAPTIVE, &WHEN]
        .into_iter()
        .find(|keys| keys.names().any(|name| name == key));
    home.map(|keys| keys.place)
}
