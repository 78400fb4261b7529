//! Tests of the messages about mistakes, and their lines.

use std::path::Path;

use super::{super::parse, LIMIT};

/// The mistakes of a text, each as `LINE: MESSAGE`.
fn mistakes(text: &str) -> Vec<String> {
    let mistakes = parse(text, Path::new("/nowhere")).expect_err(text);
    mistakes.iter().map(ToString::to_string).collect()
}

/// Checks that there are as many mistakes as expected, each beginning as expected.
fn assert_told(text: &str, expected: &[&str]) {
    let told = mistakes(text);
    let as_expected = told.len() == expected.len()
        && told
            .iter()
            .zip(expected)
            .all(|(told, start)| told.starts_with(start));
    assert!(
        as_expected,
        "{text}\ntold:     {told:#?}\nexpected: {expected:#?}"
    );
}

/// The cases of a table: a text, with `\n` between its lines, and the beginning of the message about it.
fn cases(table: &str) -> impl Iterator<Item = (String, &str)> {
    let cases = table.lines().filter_map(|line| line.split_once("=> "));
    cases.map(|(text, message)| (text.trim().replace("\\n", "\n"), message))
}

/// Each table has lines between the same text above and below.
#[test]
fn each_mistake_is_reported_with_its_line_and_advice() {
    let fleet = &format!("fleet = \"edge\"\n{LIMIT}");
    for (above, table, below) in [
        ("", TOP, LIMIT),
        (LIMIT, IN_LIMIT, ""),
        ("", WHOLE, ""),
        ("", OF_FLEET, SHARED),
        (fleet, IN_FLEET, ""),
    ] {
        for (text, expected) in cases(table) {
            let end = if below.is_empty() { "" } else { "\n" };
            assert_told(&format!("{above}{text}{end}{below}"), &[expected]);
        }
    }
}

const TOP: &str = r#"
max-sources = 5 => line 1: 'max-sources' is not a key of the file: did you mean 'max_sources'?
Mode = "auto" => line 1: 'Mode' is not a key of the file: did you mean 'mode'?
rate = "5/s" => line 1: 'rate' is not a key of the file: write it under [[limit]]
zzz = 1 => line 1: 'zzz' is not a key of the file: write one of interfaces, mode,
max_sources = 0 => line 1: max_sources: the table holds 1 to 16777216 sources
interfaces = ["eth0", "eth1", "eth0"] => line 1: interfaces: 'eth0' is listed twice: remove one
[control]\nrate = "50/s" => line 1: control: these limits apply only to exempt control traffic: write exempt = ["control"]
exempt = ["established"]\n[control]\n => line 2: control: these limits apply only to exempt control traffic
exempt = ["control"]\n[control]\ntotal = "99/s" => line 3: total: 99/s for all sources is less than the rate of one source: write at least 100/s
exempt = ["control"]\n[control]\nrate = "1mbit" => line 3: rate: control traffic is counted in packets, and 1mbit is in bits: write a rate as in 100/s
exempt = ["control"]\n[control]\ntotal = "1gbit" => line 3: total: control traffic is counted in packets, and 1gbit is in bits
exempt = ["control"]\n[control]\nburst = "64kb" => line 3: burst: burst 64kb is in bytes, rate 100/s in packets: write the burst in packets
exempt = ["control"]\n[control]\nburst = 0 => line 3: burst: a burst of 0 would let nothing through
exempt = ["control"]\n[control]\nrate = true => line 3: rate: true is not allowed here: write a rate as in "100/s"
exempt = ["control"]\n[control]\ntotl = 5 => line 3: 'totl' is not a key of [control]: did you mean 'total'?
exempt = ["control"]\ncontrol = 5 => line 2: control: the number 5 is not allowed here: write [control], and its keys below
exempt = ["contrl"]\n[control]\nrate = 5 => line 1: exempt: 'contrl' is not a valid value: did you mean "control"?
"#;

const IN_LIMIT: &str = r#"
match = { port = 22 } => line 4: 'port' is not a key of match: did you mean 'destination_port' or 'source_port'?
match = { Ports = [22] } => line 4: 'Ports' is not a key of match: did you mean 'destination_port' or 'source_port'?
port = 22 => line 4: 'port' is not a key of a limit: did you mean 'destination_port' or 'source_port' in match = { ... } under [[limit]]?
burst = "1,000" => line 4: burst: '1,000' has a comma, a space or another mark: write digits alone, as in 1000, 1.5 or 1k
burst = “10” => line 4: the value “10” is a text without quotes: write "10"
brust = 5 => line 4: 'brust' is not a key of a limit: did you mean 'burst'?
exempt = [] => line 4: 'exempt' is not a key of a limit: write it at the top of the file
limit = 5 => line 4: 'limit' is not a key of a limit: write it as [[limit]], a header of its own
lists = 5 => line 4: 'lists' is not a key of a limit: write it as [lists], a header of its own
protocol = "tcp" => line 4: 'protocol' is not a key of a limit: write it in match
match = { protcol = 6 } => line 4: 'protcol' is not a key of match: did you mean 'protocol'?
total = 5 => line 4: 'total' is not a key of a limit: write it under [control]
scope = "fleet"\nfleet = "edge" => line 5: 'fleet' is not a key of a limit: write it at the top of the file
match = { source = "allow" } => line 4: source: packets from sources on 'allow' never reach a limit
match = { source = "deny" } => line 4: source: packets from sources on 'deny' never reach a limit
burst = -5 => line 4: burst: the negative number -5 is not allowed here: write packets as in 10
key = "/33,/64" => line 4: key: '/33,/64' is not a key: write lengths as in /32,/64 (at most /32 for IPv4
key = "source + destination/129" => line 4: key: 'source + destination/129' is not a key: write lengths
key = "destination + source" => line 4: key: 'destination + source' is not a key
key = "flow + destination_port" => line 4: key: 'flow + destination_port' names the port twice
key = 0 => line 4: key: the number 0 is not allowed here
key = [] => line 4: key: an empty array is not allowed here
key = [0] => line 4: key: an array is not allowed here
burst = 1.5 => line 4: burst: the float 1.5 is not allowed here: write packets as in 10
burst = 0 => line 4: burst: a burst of 0 would let nothing through
burst = 99999999999999999999 => line 4: burst: '99999999999999999999' is not a whole number below 2^63
burst = "64kb" => line 4: burst: burst 64kb is in bytes, rate 5/s in packets
cost = [] => line 4: cost: an empty array is not allowed here: write a number of tokens as in 2
cost = 6 => line 4: cost: a cost of 6 is more than a burst of 5
algorithm = "leaky" => line 4: algorithm: 'leaky' is not a valid value: write "token-bucket" or
shadow = "yes" => line 4: shadow: the text 'yes' is not allowed here: write true or false
key = [32, 64] => line 4: key: an array is not allowed here: write a key as in "/32,/64"
match = "tcp" => line 4: match: 'tcp' is no match: write "other" for packets that no other limit matches, or a table as in {
match = { source = "192.0.2.7/24" } => line 4: source: '192.0.2.7/24' has bits set after its prefix: write 192.0.2.0/24
match = { source = "gold" } => line 4: source: there is no list 'gold': write it under [lists]
match = { unless = [] } => line 4: unless: an empty array is not allowed
adaptive = "cpu" => line 4: adaptive: the text 'cpu' is not allowed here: write a table as in { when =
adaptive = {} => line 4: adaptive needs 'when', which is missing: write it as in when = { cpu_pressure
burst = 10\nadaptive = { when = {} } => line 5: adaptive: no signal ever lowers the rate: write one as in { cpu_pressure = "20%" }
adaptive = { when = { cpu = "20%" } } => line 4: 'cpu' is not a key of when: did you mean 'cpu_pressure'?
adaptive = { when = { cpu_pressure = "100%" } } => line 4: cpu_pressure: '100%' is not a percentage: write "1%" to "99%"
burst = 10\nadaptive = { when = { softnet_drops = "1mbit" } } => line 5: adaptive: softnet_drops 1mbit is a rate of bits: write events as in 100/s
adaptive = { when = { probe = "http://h:99999 > 1s" } } => line 4: probe: 'http://h:99999 > 1s' is not an address and a time
burst = 5\nadaptive = { when = { cpu_pressure = "20%" } } => line 4: burst: at the floor of 10%, a full bucket has less than one packet: write a burst of at least 10, or a higher floor
burst = 10\nhold = "1m"\nadaptive = { when = { cpu_pressure = "20%" } } => line 6: adaptive: a lowered rate would hold sources for long
burst = 10\nalgorithm = "fixed-window"\nadaptive = { when = { cpu_pressure = "20%" } } => line 6: adaptive: the rate of a fixed window cannot follow
floor = "10%" => line 4: 'floor' is not a key of a limit: write it in adaptive = { ... } under [[limit]]
hold = 600 => line 4: hold: the number 600 is not allowed here: write a time as in "10m"
hold = "10" => line 4: hold: '10' is not a time of 1 ms to 30 days: write one as in 10m
algorithm = "fixed-window"\nhold = "10m" => line 5: hold: a fixed window cannot hold sources: leave hold out
key = "interface"\nhold = "10m" => line 5: hold: all sources share a bucket of the key interface, so that one source's flood
key = "destination"\nhold = "10m" => line 5: hold: all sources share a bucket of the key destination
key = "/32,/0"\nhold = "10m" => line 5: hold: all sources share a bucket of the key /32,/0
key = "source/0,/64 + destination"\nhold = "10m" => line 5: hold: all sources share a bucket of the key
proof = "cookie" => line 4: proof: 'cookie' is not a valid value: did you mean "syn-cookie"?
key = "interface"\nproof = "syn-cookie" => line 5: proof: a proof is about the address of a source, and interface is another key
key = "source + destination"\nproof = "syn-cookie" => line 5: proof: a proof is about the address of a source, and source
match = { protocol = "udp" }\nproof = "syn-cookie" => line 5: proof: only TCP has SYN cookies: match protocol = "tcp", or leave
connections = 50 => line 4: connections: only TCP has connections that limiter counts: write match = { protocol = "tcp" }
match = { protocol = "tcp" }\nconnections = 0 => line 5: connections: a key may have 1 to 1048576 connections: write a number in between
match = { protocol = "tcp", ttl = 1 }\nconnections = 50 => line 5: connections: sockets show no other fields of a match
match = { protocol = "tcp", tcp_flags = "ack" }\nconnections = 50 => line 5: connections: sockets show no other fields
match = { protocol = "tcp" }\nkey = "flow"\nconnections = 50 => line 6: connections: connections are counted by source, and flow
match = { protocol = "tcp" }\nproof = ["syn-cookie", "dns-tc"] => line 5: proof: dns-tc is for questions over UDP: match protocol = "udp", or leave "dns-tc" out
match = { protocol = "tcp" }\nproof = "a2s" => line 5: proof: a2s is for questions over UDP
proof = ["dns-tc", "a2"] => line 4: proof: 'a2' is not a valid value: did you mean "a2s"?
slip = 2 => line 4: slip: only dns-tc has answers to leave out: write proof = "dns-tc", or leave slip out
proof = "dns-tc"\nslip = 0 => line 5: slip: of 1 to 1000 questions, one gets an answer: write a number in between
match = { ttl = "256" } => line 4: ttl: '256' is not a number from 0 to 255: write one, or a range
match = { dscp = ["ef", "eff"] } => line 4: dscp: 'eff' is not a DSCP: write a name as in ef
match = { icmp_type = "ping" } => line 4: icmp_type: 'ping' is not an ICMP type: write one of echo-request,
match = { destination = "192.0.2.7/24" } => line 4: destination: '192.0.2.7/24' has bits set after its prefix
match = { destination = "own" } => line 4: destination: 'own' is neither a prefix nor a list: write a prefix as in
match = { destination = "192.0.2.300" } => line 4: destination: '192.0.2.300' is neither a prefix nor a list: write a
match = { destination = "192.0.2.0/33" } => line 4: destination: '192.0.2.0/33' is not a prefix: write one as in
match = { destination = "a list" } => line 4: destination: 'a list' is neither a prefix nor the name of a list
match = { destination = "deny" } => line 4: destination: limits cannot match destinations on 'deny'
match = { payload = { offset = 57, bytes = "00" } } => line 4: payload: the offset is too far: write 0 to 56
match = { payload = { offset = 300, bytes = "00" } } => line 4: payload: the offset is too far: write 0 to 56
match = { payload = { offset = 0 } } => line 4: payload needs 'bytes', which is missing: write it as in bytes =
match = { payload = { bytes = "0" } } => line 4: bytes: '0' is not 1 to 8 bytes: write two hexadecimal digits
match = { payload = { bytes = "00", mask = "00 00" } } => line 4: payload: the mask has 2 bytes, and bytes has 1
match = { protocol = "icmp", payload = { bytes = "00" } } => line 4: protocol: payload with protocol icmp never match
match = { protocol = "udp", icmp_type = 8 } => line 4: protocol: icmp_type with protocol udp never match
match = { not = {} } => line 4: not: an empty table excepts every packet
match = { not = { not = { ttl = 1 } } } => line 4: not: a negation within a negation is not possible
match = { not = { established = true } } => line 4: established: not cannot ask for connections: write established = false
match = { not = { other = true } } => line 4: other: not cannot ask for other limits: write other = true in match
match = { established = true, protocol = "icmp" } => line 4: protocol: established with protocol icmp never match: write protocol = "tcp" or "udp"
match = { payload_length = 5, protocol = "sctp" } => line 4: protocol: payload_length with protocol sctp never match
match = { payload_length = "5-x" } => line 4: payload_length: '5-x' is not a number from 0 to 65575
match = { not = { sorce_port = 53 } } => line 4: 'sorce_port' is not a key of match: did you mean 'source_port'?
match = { ip_version = 5 } => line 4: ip_version: 5 is not a version of IP: write 4 or 6
match = { destination_port = [\n  53,\n  70000,\n] } => line 6: destination_port: '70000' is not a number from 0 to 65535
[limit.match]\nprotocol = "icmp"\nsource_port = 5 => line 5: protocol: protocol icmp has no ports
"#;

const WHOLE: &str = r#"
[lists]\ndeny = { scope = "fleet" }\nfleet = "edge"\n[[limit]]\nname = "a"\nrate = 5 => line 3: fleet: this is under [lists], where it would be a list: write it at the top of the file
[[limit]]\nname = "a"\nrat = 5 => line 3: 'rat' is not a key of a limit: did you mean 'rate'?
[[limits]]\nname = "a" => line 1: 'limits' is not a key of the file: did you mean 'limit'?
[[limit]]\nname = "a"\nrate = "1/d"\nburst = "1M" => line 4: burst: a burst of 1M takes more than 208 days
 => line 1: nothing to limit: write [[limit]]
[[limit]\nname = "a"\nrate = 5 => line 1: unclosed array table: write `]`
[limit]\nname = "a"\nrate = 5 => line 1: limit: [limit] allows one limit only: write [[limit]]
[limit]\nname = "a"\nrate = 5\n[limit]\nname = "b"\nrate = 5 => line 4: this header appears twice: write [[limit]] above each limit
mode = \n[[limit]]\nname = "a"\nrate = 5 => line 1: a value is missing after '='
mode\n[[limit]]\nname = "a"\nrate = 5 => line 1: key with no value: write `=`
interfaces = [\n"a",\n[[limit]]\nname = "a"\nrate = 5 => line 3: a bracket is open above this header: write ']'
[[limit]]\nname = "a"\nmatch = { protocol = 6\nrate = 5 => line 4: missing comma between key-value pairs: write `,`
[[limit]]\nname = "a\nrate = 5 => line 2: invalid basic string: write `"
[[limit]]\nname = """a\nrate = 5 => line 3: invalid multi-line basic string: write `"
lists = 5\n[[limit]]\nname = "a"\nrate = 5\nmatch = { source = "p" } => line 1: lists: the number 5
"#;

/// A list and a limit that a fleet shares. Problems that follow from a mistake about the fleet are not reported.
const SHARED: &str = "[lists]\ndeny = { scope = \"fleet\" }\n[[limit]]\nname = \"a\"\nrate = \"5/s\"\nscope = \"fleet\"\n";

const OF_FLEET: &str = r#"
fleet = 5 => line 1: fleet: the number 5 is not allowed here: write a name as in "edge"
fleet = "ed ge" => line 1: fleet: 'ed ge' is not the name of a fleet: write 1 to 32
fleet = "none" => line 1: fleet: 'none' stands for no fleet
fleet = "control" => line 1: fleet: 'control' is not the name of a fleet
fleet =  => line 1: a value is missing after '='
fleets = "edge" => line 1: 'fleets' is not a key of the file: did you mean 'fleet'?
"#;

const IN_FLEET: &str = r#"
scope = "all" => line 5: scope: 'all' is not a valid value: write "host" or "fleet"
[lists]\ndeny = { scope = 1 } => line 6: scope: the number 1 is not allowed here: write "host"
[lists]\ndeny = {} => line 6: a list needs 'file', which is missing
[lists]\ndeny = { file = "few", format = "xml" } => line 6: format: 'xml' is not a format: write one of auto, plain,
[lists]\ndeny = { prefixes = [], format = "json" } => line 6: format: this is for the list of a file, and there is none: write file =
[lists]\ndeny = { prefixes = [], field = "ip" } => line 6: field: this is for the list of a file
[lists]\ndeny = { file = "few", field = [] } => line 6: field: an empty array is not allowed
[lists]\ndeny = { prefix = [] } => line 6: 'prefix' is not a key of a list: did you mean 'prefixes'?
[lists]\ndeny = { prefixes = "192.0.2.7" } => line 6: prefixes: the text '192.0.2.7' is not allowed here: write an array
[lists]\ndeny = { prefixes = ["x"] } => line 6: prefixes: 'x' is not a prefix
[lists]\ndeny = { scope = "fleet", file = "few" } => line 6: deny: /nowhere/few cannot be read (No such file
"#;

/// The limit is 64 letters: no typing mistake is longer.
#[test]
fn key_over_64_letters_gets_no_suggestion() {
    for (letters, advice) in [
        (64, "did you mean 'new_sources_burst'?"),
        (65, "write one of"),
    ] {
        let key = format!("{:z<letters$}", "new_sources_burst");
        let error = format!("line 1: '{key}' is not a key of the file: {advice}");
        assert_told(&format!("{key} = 1\n{LIMIT}"), &[&error]);
    }
}

/// Text that is not TOML comes first, then keys and values, then contradictions.
#[test]
fn all_mistakes_of_a_kind_are_reported_at_once_in_line_order() {
    let values = "mode = \"atuo\"\n[lists]\nallow = [\n  \"192.0.2.7/24\",\n  5,\n]\nfew = { file = \"few.txt\" }\n\
                  [[limit]]\nname = \"a\"\n[[limit]]\nname = \"a\"\nrate = [1]\n";
    assert_told(
        &format!("{values}[[limit]]\nrate = 5 / s\nrate = 5\n"),
        &["line 14: the value 5 / s is a text without quotes: write \"5 / s\""],
    );
    assert_told(
        &format!("{values}[[limit]]\nrate = 5\nrate = 5\n"),
        &["line 15: 'rate' is written twice: remove one"],
    );
    assert_told(
        values,
        &[
            "line 1: mode: 'atuo' is not a valid value: did you mean \"auto\"?",
            "line 4: allow: '192.0.2.7/24' has bits set after its prefix",
            "line 5: allow: the number 5 is not allowed here: write a prefix as in \"192.0.2.0/24\"",
            "line 7: few: /nowhere/few.txt cannot be read (No such file",
            "line 8: a limit needs 'rate', which is missing: write it as in rate = \"5/s\"",
            "line 12: rate: an array is not allowed here",
        ],
    );
    assert_told(
        &format!("max_sources = 0\n{LIMIT}cost = 0\n[[limit]]\nname = \"b c\"\nrate = 5\n{LIMIT}"),
        &[
            "line 1: max_sources: the table holds",
            "line 5: cost: packets with a cost of 0",
            "line 7: name: 'b c' is not a name",
            "line 10: name: two limits are called 'a'",
        ],
    );
}

#[test]
fn error_messages_are_short_and_printable() {
    for text in [
        "[".repeat(9_000),
        format!("mode = \"a\\nb\\u001b{}\"", "é".repeat(9_000)),
    ] {
        for told in mistakes(&text) {
            assert!(told.chars().count() < 700, "{told}");
            assert!(!told.contains(['\n', '\u{1b}']), "{told}");
        }
    }
}

#[test]
fn up_to_16_ports_are_accepted() {
    let ports = |count: u16| {
        let ports: Vec<_> = (1..=count).map(|port| 2 * port).collect();
        format!("{LIMIT}match = {{ protocol = \"tcp\", source_port = {ports:?} }}")
    };
    assert!(parse(&ports(16), Path::new("/nowhere")).is_ok());
    let expected = "line 4: source_port: 17 separate values or ranges are too many for one limit";
    assert_told(&ports(17), &[expected]);
    let adjacent = format!(
        "{LIMIT}match = {{ source_port = {:?} }}",
        (1..=99).collect::<Vec<_>>()
    );
    assert!(parse(&adjacent, Path::new("/nowhere")).is_ok(), "one range");
}

/// A number is a type of both protocols. Names are adjacent types.
#[test]
fn many_icmp_types_are_accepted_and_the_message_says_how_to_have_more() {
    let names = [
        "echo-request",
        "echo-reply",
        "destination-unreachable",
        "packet-too-big",
        "time-exceeded",
        "parameter-problem",
        "source-quench",
        "redirect",
        "router-solicitation",
        "router-advertisement",
        "neighbor-solicitation",
        "neighbor-advertisement",
        "listener-query",
        "listener-report",
        "listener-done",
        "timestamp-request",
    ];
    let types =
        |before: &str, types: &str| format!("{LIMIT}match = {{ {before}icmp_type = {types} }}");
    let numbers: Vec<_> = (0..9).map(|number| 20 + 2 * number).collect();
    let numbers = format!("{numbers:?}");
    for accepted in [
        types("", &format!("{names:?}")),
        types("", "[20, 22, 24, 26, 28, 30, 32, 34]"),
    ] {
        assert!(
            parse(&accepted, Path::new("/nowhere")).is_ok(),
            "{accepted}"
        );
    }
    assert_told(
        &types("", &numbers),
        &[
            "line 4: icmp_type: 18 separate values or ranges are too many for one limit (a number of `icmp_type` is two, for ICMP and ICMPv6): write at most 16, or two limits",
        ],
    );
}

#[test]
fn invalid_fleet_settings_are_reported_at_once() {
    let lists = "[lists]\ndeny = { scope = \"fleet\" }\n[lists.gold]\nscope = \"fleet\"\nprefixes = [\"192.0.2.7\"]\n";
    assert_told(
        &format!(
            "{lists}{LIMIT}scope = \"fleet\"\nalgorithm = \"fixed-window\"\nkey = \"source + destination\"\n[[limit]]\nname = \"b\"\nscope = \"fleet\"\nrate = \"1mbit\"\n"
        ),
        &[
            "line 2: deny: list 'deny' is shared by a fleet, but no fleet is named: write fleet = \"NAME\"",
            "line 3: gold: list 'gold' is shared by a fleet",
            "line 9: scope: limit 'a' is shared by a fleet, but no fleet is named: write",
            "line 10: algorithm: a fleet cannot share a fixed window",
            "line 11: key: a fleet shares only buckets of sources, and source + destination has more than the source: write",
            "line 14: scope: limit 'b'",
            "line 15: rate: a fleet shares only rates in packets",
        ],
    );
}
