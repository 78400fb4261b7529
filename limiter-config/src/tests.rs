//! Tests of the values that users write: each is read and shown, or refused.

use std::{fmt::Display, net::IpAddr, str::FromStr};

use limiter_common::table::{Seed, nat64::Nat64};

use super::{
    Burst, Destination, Invalid, Key, Match, Protocol, Rate, Time, Translator,
    adaptive::{Percent, Probe},
    escape, file,
    key::Packet,
    lists::{prefix, show},
    matches::{Dscp, Hex, IcmpType, Lengths, PortRange, TcpFlags, Ttl, Vlan},
    number::{COUNTS, parse},
};

fn shown<T: FromStr<Err = Invalid> + Display>(text: &str) -> Result<String, Invalid> {
    text.parse().map(|value: T| value.to_string())
}

/// Reads a value of this kind, and shows it.
fn read(kind: &str, text: &str) -> Result<String, Invalid> {
    match kind {
        "rate" => shown::<Rate>(text),
        "burst" => shown::<Burst>(text),
        "key" => shown::<Key>(text),
        "protocol" => shown::<Protocol>(text),
        "port" => shown::<PortRange>(text),
        "length" => shown::<Lengths>(text),
        "ttl" => shown::<Ttl>(text),
        "vlan" => shown::<Vlan>(text),
        "translator" => shown::<Translator>(text),
        "dscp" => shown::<Dscp>(text),
        "icmp" => shown::<IcmpType>(text),
        "destination" => shown::<Destination>(text),
        "bytes" => shown::<Hex>(text),
        "flags" => shown::<TcpFlags>(text),
        "hold" => shown::<Time>(text),
        "percent" => shown::<Percent>(text),
        "probe" => shown::<Probe>(text),
        "prefix" => prefix(text).map(|prefix| show(&prefix)),
        "number" => parse(text, COUNTS).map(|number| number.to_string()),
        _ => panic!("{kind} is no kind of value"),
    }
}

/// The lines of a table: a kind, and texts.
fn table(table: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let lines = table.lines().filter_map(|line| line.split_once(": "));
    lines.map(|(kind, texts)| (kind, texts.split(" | ").collect()))
}

/// Shown text reads back: the record of an attachment stores it.
#[test]
fn values_are_read_and_shown() {
    let values = "
rate: 5 = 5/s | 5/s | 300/1m = 300/m | 10/6s | 1k/s | 2M/s | 1/d | 100/10d | 10mbit | 64kbit | 1.5gbit = 1500mbit
rate: 5/second = 5/s | 5/sec = 5/s | 5/min = 5/m | 5/minute = 5/m | 5/hour = 5/h | 100/day = 100/d | 10/6sec = 10/6s | 90/60s = 90/m
rate: 5pps = 5/s | 1kpps = 1k/s | 1Kpps = 1k/s | 2Mpps = 2M/s | 0.5pps = 1/2s | 1K/s = 1k/s | 1.5k/s = 1500/s
rate: 0.5/s = 1/2s | 1.5/s = 3/2s | 0.1/m = 1/10m | 0.25 = 1/4s | 0.0005k/s = 1/2s | 2.50/s = 5/2s
rate: 10Mbit = 10mbit | 10Mbps = 10mbit | 10mbps = 10mbit | 10mbit/s = 10mbit | 10Mbit/s = 10mbit | 10Mbits/s = 10mbit | 1Gbps = 1gbit
rate: 64Kbit = 64kbit | 64kbps = 64kbit | 1.5Gbit/s = 1500mbit | 800bps = 800bit | 800bits = 800bit | 1Tbit = 1tbit
burst: 10 | 2k | 2K = 2k | 64kb | 64KB = 64kb | 64kB = 64kb | 64KiB = 64kb | 1MB = 1mb | 1MiB = 1mb | 1GB = 1gb | 1mb | 1500b | 1500B = 1500b
key: /32,/64 | /24,/48 | /0,/0 | interface | /32,/64,destination_port | interface,destination_port
key: source = /32,/64 | source/24 = /24,/64 | source/24,/48 = /24,/48 | source + destination_port = /32,/64,destination_port
key: destination | destination/24,/48 | destination/24 = destination/24,/128 | destination/32,/128 = destination
key: source + destination | source+destination = source + destination | source/32,/64 + destination/32,/128 = source + destination
key: source/24,/48 + destination | source/24,/48 + destination/32,/64 | flow | interface + destination_port = interface,destination_port
key: source,vlan = /32,/64,vlan | /24,/48,vlan | interface,vlan | destination,vlan = destination + vlan | source + destination + vlan | flow,vlan = flow + vlan
key: source + destination,destination_port = source + destination + destination_port | destination + destination_port
protocol: tcp | TCP = tcp | ICMPv6 = icmpv6 | 17 = udp | 253 | 0
port: http = 80 | HTTPS = 443 | ssh = 22 | domain = 53 | 53 | 5300-5353 | 7-7 = 7 | 0-65535
length: 60 | 60-60 = 60 | 0-100 | 1200- | 1200-65535 | 1200-65575 = 1200-
ttl: 64 | 0-5 | 200-255 = 200-
vlan: 20 | 0-4095 | 100-199 | 1-1 = 1
translator: 2001:db8:64::/96 | 64:ff9b:1::/48 | 2001:DB8::/32 = 2001:db8::/32
dscp: ef | EF = ef | 46 = ef | 8-15 | 8-8 = cs1 | 63
icmp: echo-request | Echo-Request = echo-request | 8 | 128 | packet-too-big | timestamp-reply | 0 | 255
destination: 192.0.2.10 | 2001:db8:1::/48 | own
percent: 1% | 20% | 99%
probe: http://127.0.0.1/health > 200ms | http://[::1]:8080/ > 1s | tcp://127.0.0.1:25 > 50ms = tcp://127.0.0.1:25/ > 50ms
hold: 10m | 90s = 1m 30s | 1h 30m | 500ms | 30days
bytes: ff ff ff ff 54 | FFfe = ff fe | 00
flags: syn | SYN = syn | ack,syn = syn,ack | syn/syn | /syn | syn/syn,ack,fin,rst = syn | psh,ack = psh,ack
prefix: 192.0.2.0/24 | 192.0.2.7 | 192.0.2.7/32 = 192.0.2.7 | 0.0.0.0/0 | 2001:DB8::/32 = 2001:db8::/32 | 2001:db8::7
number: 5 | 1.5k = 1500 | 2M = 2000000
";
    for (kind, texts) in table(values) {
        for text in texts {
            let (text, expected) = text.split_once(" = ").unwrap_or((text, text));
            assert_eq!(read(kind, text).as_deref(), Ok(expected), "{kind} {text}");
            assert_eq!(read(kind, expected).as_deref(), Ok(expected), "{kind}");
        }
    }
}

#[test]
fn invalid_values_are_refused() {
    let values = "
rate: 0 | 0.0/s | 5/x | 5/0.5s | 2G/s | 2tbit | 1/209d | 0.001/d | 5/M | 5/S | 5m/s | 10mbit/m | 10Mibit | 5pps/s | 5 pps | /s | pps | bit | 1.2.3/s
burst: 0 | -1 | 0kb | 1.5 | kb | 10x | 10kbit | 10mbps | 10iB | 1e9
key: /33,/64 | /32,/129 | /32 | 32,64 | /32,/64,/1 | /-1,/64 | /32,/+64 | Interface | /32,/64,source_port | destination_port
key: source/33 | source/24,48 | source/,/48 | destination/32,/129 | destinations | destination + source | source + | + destination
key: vlan | /32,/64,vlan,destination_port | /32,/64,destination_port,vlan | source + vlan + destination_port | /32,/64,vlan,vlan
key: source + source | interface + destination | /32,/64 + destination | flow/32,/64 | flow,destination_port | flow + destination
protocol: tcpx | 256 | -1 | tcp,udp
port: 65536 | 9-8 | -1 | 1-2-3 | +5 | htp | http-https | 9-
length: - | -100 | 100-60 | 65576 | 1k | 0-1-2
ttl: 256 | 5-0 | x
vlan: 4096 | 20- | -1 | untagged
translator: 2001:db8:64::/95 | 2001:db8:64:: | 192.0.2.0/24 | 2001:db8::1/96 | x
dscp: 64 | af14 | 9-8
icmp: ping | 256 | -1 | 8-9 | +8
destination: 192.0.2.7/24 | a b | 2001:db8:
percent: 0% | 100% | 5 | 2.5% | -1%
probe: http://h/ | h > 1s | https://h/ > 1s | tcp://h > 1s | tcp://h:0 > 1s | tcp://h:25/path > 1s | http://u:p@h/ > 1s | http://h:x/ > 1s | http://h/ > 0s | http://h/ > 11s
hold: 10 | 0s | 31days | -1m | soon
bytes: f | fg | 00 00 00 00 00 00 00 00 00 | 0x00
flags: syn, | syn/ack | syn/ | xyz
prefix: 192.0.2.7/24 | 192.0.2.0/33 | 192.0.2 | 2001:db8::1/64 | host | 192.0.2.0/-1 | 192.0.2.0/+24 | 192.0.2.0/ | 010.0.0.0/8 | 010.0.0.1
number: k | 0.5 | 1.2.3 | . | .5 | .5k | 1.0000000000k | 9223372036854775808 | -1 | 1e400 | 5x | 99999999999999999999 | 1 k
";
    for (kind, texts) in table(values) {
        for text in texts.into_iter().chain([""]) {
            assert!(read(kind, text).is_err(), "{kind} {text}");
        }
    }
}

/// A unit that means bits to some and bytes to others is never guessed.
#[test]
fn rate_in_bits_or_bytes_is_refused_with_both_readings() {
    for (text, bytes, bits) in [
        ("10MB/s", "80mbit", "10mbit"),
        ("10MBps", "80mbit", "10mbit"),
        ("10Mb", "80mbit", "10mbit"),
        ("10mb/s", "80mbit", "10mbit"),
        ("64KiB/s", "524288bit", "64kbit"),
        ("1.5GB/s", "12gbit", "1500mbit"),
        ("800B", "6400bit", "800bit"),
    ] {
        let expected = format!(
            "'{text}' may be bytes or bits per second: write {bytes} for bytes, {bits} for bits"
        );
        assert_eq!(read("rate", text), Err(Invalid(expected)));
        assert!(read("rate", bytes).is_ok() && read("rate", bits).is_ok());
    }
}

#[test]
fn default_burst_is_the_amount_of_the_period_and_at_least_one_frame() {
    for (rate, tokens) in [
        ("5/s", 5),
        ("300/m", 300),
        ("6/30s", 6),
        ("100k/d", 100_000),
        ("1/208d", 1),
        ("8kbit", 1_522),
        ("16mbit", 2_000_000),
    ] {
        let burst = Burst::default_for(&rate.parse().unwrap(), 1_522);
        assert_eq!(burst.tokens, tokens, "{rate}");
    }
}

#[test]
fn sources_are_cut_to_their_prefix() {
    for (key, address, expected) in [
        ("/32,/64", "192.0.2.7", "192.0.2.7"),
        ("/25,/64", "192.0.2.200", "192.0.2.128/25"),
        ("/32,/64", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("/32,/65", "2001:db8::8000:0:0:1", "2001:db8:0:0:8000::/65"),
        ("/32,/128", "::1", "::1"),
        ("/0,/0", "192.0.2.7", "0.0.0.0/0"),
        ("/32,/48", "fe80:1:2:3::1", "fe80:1:2:3::1"),
        ("/32,/64", "fec0::1", "fec0::/64"),
        ("/32,/10", "fe80::1", "fe80::/10"),
        ("/32,/64", "64:ff9b::c000:207", "64:ff9b::c000:207"),
        ("/24,/48", "64:ff9b::c000:207", "64:ff9b::c000:200/120"),
        ("/0,/0", "64:ff9b::c000:207", "64:ff9b::/96"),
        ("/32,/64", "64:ff9b:1::c000:207", "64:ff9b:1::/64"),
        ("interface", "64:ff9b::c000:207", "interface"),
        ("interface", "192.0.2.7", "interface"),
        (
            "/24,/64,destination_port",
            "192.0.2.7",
            "192.0.2.0/24 port 53",
        ),
    ] {
        let key: Key = key.parse().unwrap();
        let source = key.of(3, address.parse().unwrap(), 53);
        let nat64 = &Nat64::WELL_KNOWN;
        assert_eq!(key.show(&source, nat64), expected);
        let shown = key.show_source(&source, nat64);
        let network = key.network(&source, nat64).map(|network| show(&network));
        assert_eq!(network.unwrap_or("interface".to_owned()), shown);
    }
}

/// The text of the key of UDP packets from port 4000 to port 53.
fn shown_of(key: &str, source: &str, destination: &str, protocol: u8) -> (String, Option<String>) {
    let key: Key = key.parse().unwrap();
    let packet = Packet {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol,
        source_port: 4_000,
        destination_port: 53,
        vlan: 20,
    };
    let nat64 = &Nat64::WELL_KNOWN;
    let packet_key = key.of_packet(3, &packet, &Seed::new([1, 2, 3, 4]), nat64);
    let network = key
        .network(&packet_key, nat64)
        .map(|network| show(&network));
    (key.show(&packet_key, nat64), network)
}

#[test]
fn keys_with_a_destination_are_shown() {
    for (key, expected, network) in [
        ("destination", "-> 198.51.100.9", None),
        ("destination/24,/48", "-> 198.51.100.0/24", None),
        (
            "destination + destination_port",
            "-> 198.51.100.9 port 53",
            None,
        ),
        (
            "source + destination",
            "192.0.2.7 -> 198.51.100.9",
            Some("192.0.2.7"),
        ),
        (
            "source/24,/48 + destination/16,/32 + destination_port",
            "192.0.2.0/24 -> 198.51.0.0/16 port 53",
            Some("192.0.2.0/24"),
        ),
        (
            "flow",
            "udp 192.0.2.7:4000 -> 198.51.100.9:53",
            Some("192.0.2.7"),
        ),
        ("source,vlan", "192.0.2.7 vlan 20", Some("192.0.2.7")),
        ("interface,vlan", "interface vlan 20", None),
        (
            "flow + vlan",
            "udp 192.0.2.7:4000 -> 198.51.100.9:53 vlan 20",
            Some("192.0.2.7"),
        ),
    ] {
        let shown = shown_of(key, "192.0.2.7", "198.51.100.9", 17);
        assert_eq!(shown, (expected.to_owned(), network.map(str::to_owned)));
    }
    let gre = shown_of("flow", "192.0.2.7", "198.51.100.9", 47).0;
    assert_eq!(gre, "gre 192.0.2.7 -> 198.51.100.9");
    // Only sources are neighbours.
    let shown = shown_of("destination/32,/64", "fe80::1", "fe80::2", 17);
    assert_eq!(shown, ("-> fe80::/64".to_owned(), None));
}

#[test]
fn ipv6_pairs_are_hashed_under_their_masks() {
    let key = "source/32,/48 + destination";
    let text_of = |key: &str, source: &str, destination: &str, protocol: u8| {
        let (shown, network) = shown_of(key, source, destination, protocol);
        assert_eq!(network, None);
        shown
    };
    let first = text_of(key, "2001:db8::1", "2001:db8:1::1", 17);
    let digits = first.strip_prefix("pair #").unwrap();
    assert!(digits.len() == 16 && u64::from_str_radix(digits, 16).is_ok());
    assert_eq!(text_of(key, "2001:db8:0:1::2", "2001:db8:1::1", 6), first);
    assert_ne!(text_of(key, "2001:db8:1::1", "2001:db8:1::1", 17), first);
    assert_ne!(text_of(key, "2001:db8::1", "2001:db8:1::2", 17), first);
    // Each neighbour has its own bucket.
    let neighbours = ["fe80::1", "fe80::2"].map(|source| text_of(key, source, "2001:db8:1::1", 17));
    assert_ne!(neighbours[0], neighbours[1]);
    let flows = [6, 17].map(|protocol| text_of("flow", "2001:db8::1", "2001:db8:1::1", protocol));
    assert!(flows[0].starts_with("flow #") && flows[0] != flows[1]);
}

#[test]
fn key_of_an_ipv4_pair_says_its_source() {
    let packet = |source: &str, destination: &str| Packet {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol: 17,
        source_port: 4_000,
        destination_port: 53,
        vlan: 0,
    };
    let seed = Seed::new([1, 2, 3, 4]);
    for (key, source, is_from) in [
        ("source + destination", "192.0.2.7", true),
        ("source + destination", "192.0.2.8", false),
        ("source/24 + destination", "192.0.2.8", true),
        ("source + destination", "198.51.100.9", false),
        ("flow", "192.0.2.7", true),
        ("flow", "192.0.2.8", false),
        ("flow", "2001:db8::1", false),
        ("/32,/64", "192.0.2.7", false),
    ] {
        let key: Key = key.parse().unwrap();
        let packet_key = key.of_packet(
            3,
            &packet("192.0.2.7", "198.51.100.9"),
            &seed,
            &Nat64::WELL_KNOWN,
        );
        let source = source.parse().unwrap();
        assert_eq!(key.is_from(&packet_key, source), is_from, "{key}, {source}");
    }
    let key: Key = "flow".parse().unwrap();
    let packet_key = key.of_packet(
        3,
        &packet("2001:db8::1", "2001:db8::2"),
        &seed,
        &Nat64::WELL_KNOWN,
    );
    assert!(!key.is_from(&packet_key, "2001:db8::1".parse().unwrap()));
}

#[test]
fn ipv4_and_ipv6_sources_never_share_a_bucket() {
    let key: Key = "/32,/128".parse().unwrap();
    let addresses = ["192.0.2.7", "::ffff:192.0.2.7", "c000:0207::"];
    let [v4, mapped, first_word] = addresses.map(|address| {
        let address: IpAddr = address.parse().unwrap();
        key.of(0, address, 0)
    });
    assert!(v4 != mapped && v4 != first_word);
}

#[test]
fn error_message_is_one_line_with_escapes() {
    let told = Invalid("'a\u{1b}[2J\n' is no rate".to_owned()).to_string();
    assert_eq!(told, "'a\\u{1b}[2J\\n' is no rate");
}

#[test]
fn letters_are_kept_and_unprintable_characters_are_escaped() {
    let kept = "naïve e\u{301} 日本 \\n 'it' \"is\" → …";
    assert_eq!(escape(kept, |_| false), kept);
    for c in "\u{0}\u{7f}\u{85}\u{ad}\u{61c}\u{200b}\u{200e}\u{202e}\u{2066}\u{feff}\u{fff9}\u{e0001}\u{e007f}".chars() {
        let text = format!("a{c}b");
        assert_eq!(escape(&text, |_| false), format!("a{}b", c.escape_default()));
        assert_eq!(escape(&text, |kept| kept == c), text);
    }
}

#[test]
fn match_is_read_from_a_line_as_from_a_file() {
    let read = |text: &str| text.parse::<Match>();
    let wanted = Match {
        protocol: Some(Protocol::UDP),
        source_port: vec![PortRange::new(53, 53)],
        ..Match::default()
    };
    for text in [
        r#"{ protocol = "udp", source_port = 53 }"#,
        r#" protocol = "udp", source_port = "dns" "#,
    ] {
        assert_eq!(read(text), Ok(wanted.clone()), "{text}");
    }
    assert_eq!(read("other"), Ok(Match::others()));
    let written = file::matches(&wanted);
    assert_eq!(read(&written), Ok(wanted));
    for (text, words) in [
        ("{ protocol = 'udp' }\nname = 'x'", "one line"),
        ("{ protocol = 'udp' }, rate = 1", ""),
        ("{ ports = 53 }", "did you mean"),
        ("{ protocol = 'upd' }", "not a known protocol"),
        ("udp", ""),
    ] {
        let wrong = read(text).unwrap_err().to_string();
        assert!(wrong.contains(words), "{text}: {wrong}");
    }
}
