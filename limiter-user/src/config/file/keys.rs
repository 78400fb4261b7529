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
pub static ALL: [&Keys; 5] = [&TOP, &CONTROL, &LIST, &LIMIT, &packets::MATCH];

/// The keys above all headers.
pub static TOP: Keys = Keys {
    table: "the file",
    place: "at the top of the file, above [lists] and [[limit]]",
    known: r#"
interfaces: The interface or interfaces that the file is for: `"eth0"`, or an array. `attach` takes others on its command line instead.
mode: Where the program runs: `"auto"` (default), `"native"` or `"generic"`. Fixed at `attach`.
max_sources: How many buckets the table holds: `65536` (default), `"64k"`. Fixed at `attach`.
new_sources: How fast sources that are not in the table are taken in: `"10k/s"` (default), or `"none"` for no limit.
new_sources_burst: How many new sources at once. Default: what `new_sources` brings in 6.5536 seconds.
exempt: What the limits do not hold: `"established"` (packets of connections of the host's own sockets), `"control"` (ARP, neighbour discovery and DHCP, which get limits of their own), or an array of both.
shadow: `true`: count what would be dropped, and drop nothing.
malformed: What happens to IP packets with an impossible header: `"drop"` (default) or `"pass"`.
fleet: The hosts that write the same name share limits and lists of scope `"fleet"`, through `limiter agent`.
control: The header `[control]`: the limits on control traffic, where `exempt` has `"control"`.
lists: The header `[lists]`. Below it stands one list a line: `allow`, `deny`, or a name of your own (a tier, for `source` and `unless`), and its prefixes as an array.
limit: The header `[[limit]]` above each limit, at most 32. A packet must be admitted by every limit that matches it.
"#,
};

/// The keys of `[control]`.
pub static CONTROL: Keys = Keys {
    table: "[control]",
    place: "under [control]",
    known: r#"
rate: How fast one source may send control traffic, in packets: `"100/s"` (default).
burst: How many packets one source may send at once. Default: what `rate` gives in two seconds.
total: How fast control traffic may come from all sources of the interface together, in packets: `"10k/s"` (default), or `"none"` for no total. As many packets as that gives in one second may come at once.
"#,
};

/// The keys of `[[limit]]`.
pub static LIMIT: Keys = Keys {
    table: "a limit",
    place: "under [[limit]]",
    known: r#"
name: The name of the limit. Required, and different for each limit.
match: Which packets the limit holds, as `{ protocol = "udp", destination_port = 53 }`. Left out: all.
key: What has a bucket of its own: `"/32,/64"` (default: prefix lengths for IPv4 and IPv6), or `"interface"` for one bucket in all. With `,destination_port` behind it, each destination port has its own.
rate: How fast: `"5/s"`, `"300/m"`, `"1k/s"` in packets; `"64kbit"`, `"10mbit"` in bits. Required.
burst: How much at once: packets (`10`, `"2k"`), or bytes (`"64kb"`) for a rate in bits. Default: what the rate gives in one second.
cost: What a packet costs: `"packets"` or `"bytes"` as the rate is in, or a fixed number of tokens.
algorithm: `"token-bucket"` (default) or `"fixed-window"`.
shadow: `true`: this limit counts, and drops nothing.
scope: `"host"` (default), or `"fleet"`: all hosts of the fleet hold a source to this limit together.
"#,
};

/// The keys of `{ file = "path" }` and `{ scope = "fleet", prefixes = [] }`.
pub static LIST: Keys = Keys {
    table: "a list",
    place: "in a list under [lists], as in { file = \"path\" }",
    known: r#"
file: A text file with one prefix a line, from the folder of the configuration file; `#` begins a comment.
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

    /// The names of the keys.
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
    let home = [&TOP, &LIMIT, &packets::MATCH, &CONTROL]
        .into_iter()
        .find(|keys| keys.names().any(|name| name == key));
    home.map(|keys| keys.place)
}
