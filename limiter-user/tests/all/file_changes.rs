//! Files, and changes to their text.

use proptest::{
    prelude::*,
    sample::{Index, select},
};

/// Files that use all settings.
pub const CORPUS: [&str; 5] = [
    r#"# comment
interfaces = "eth0"
mode = "native"
max_sources = "64k"
new_sources = "none"
exempt = ["established", "control"]
malformed = "pass"
shadow = true

[control]
rate = 50
burst = "1k"
total = "20k/s"

[lists]
allow = ["198.51.100.0/24", "2001:db8::/32"]
deny = { file = "prefixes.txt" }
gold = [
    "192.0.2.0/24", # lab
    "192.0.2.7",
]
"#,
    r#"
[[limit]]
name = 'ssh'
match = { protocol = "tcp", destination_port = 22, tcp_flags = "syn", fragments = false }
rate = "5/m"
burst = 5

[[limit]]
name = "dns"
key = "/24,/48,destination_port"
rate = 20
burst = "2k"
cost = 0x2
algorithm = "fixed-window"
[limit.match]
protocol = 17
destination_port = [53, "5300-5353"]
source_port = "1024-65535"
ip_version = 4
"#,
    r#"
interfaces = ["eth0.7@x-y", 'a"b\c#d=é']
new_sources = "10k/s"
new_sources_burst = "1.5k"
lists.partners = ["192.0.2.0/24"]
lists."a.b" = []
[[limit]]
name = "partners"
match.source = "partners"
match.unless = ["a.b"]
rate = "100mbit"
burst = "1mb"
shadow = true
"#,
    r#"
fleet = "edge"
[lists]
allow = { scope = "fleet" }
deny = { scope = "fleet", file = "prefixes.txt", prefixes = ["192.0.2.7"] }
[lists.gold]
scope = "host"
prefixes = [
    "192.0.2.0/24",
]
[[limit]]
name = "shared"
rate = "5/s"
scope = "fleet"
"#,
    "limit = [{ name = \"a\", rate = \"\"\"5/s\"\"\" }, { name = \"\\u0062\", rate = '1/d' }]\n",
];

/// The most destructive pieces of text.
pub const PIECES: [&str; 28] = [
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "=",
    ",",
    ".",
    "#",
    "\\",
    "\n",
    "\r\n",
    "\0",
    "\u{feff}",
    "é",
    "-",
    "_",
    "0",
    "99999999999999999999",
    "[[limit]]\n",
    "[lists]\n",
    "[limit.match]\n",
    "match = { ",
    "rate = \"5/s\"\n",
    "true",
];

#[derive(Clone, Debug)]
pub enum Change {
    Byte(Index, u8),
    Delete(Index, usize),
    Insert(Index, &'static str),
    SwapLines(Index, Index),
    Splice(Index, Index, &'static str),
}

pub fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        any::<(Index, u8)>().prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Change::Delete(at, length)),
        (any::<Index>(), select(&PIECES[..])).prop_map(|(at, piece)| Change::Insert(at, piece)),
        any::<(Index, Index)>().prop_map(|(one, other)| Change::SwapLines(one, other)),
        (any::<Index>(), any::<Index>(), select(&CORPUS[..]))
            .prop_map(|(at, from, file)| Change::Splice(at, from, file)),
    ]
}

pub fn change(text: &mut Vec<u8>, change: &Change) {
    let length = text.len() + 1;
    match change {
        Change::Byte(at, byte) => {
            if let Some(place) = text.get_mut(at.index(length)) {
                *place = *byte;
            }
        }
        Change::Delete(at, count) => {
            let start = at.index(length);
            text.drain(start..(start + count).min(length - 1));
        }
        Change::Insert(at, piece) => {
            let at = at.index(length);
            text.splice(at..at, piece.bytes());
        }
        Change::SwapLines(one, other) => {
            let mut lines: Vec<_> = text.split(|byte| *byte == b'\n').collect();
            let (one, other) = (one.index(lines.len()), other.index(lines.len()));
            lines.swap(one, other);
            *text = lines.join(&b'\n');
        }
        Change::Splice(at, from, file) => {
            text.truncate(at.index(length));
            text.extend(&file.as_bytes()[from.index(file.len())..]);
        }
    }
}
