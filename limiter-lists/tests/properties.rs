//! Properties: lists in each format read back equal, and arbitrary bytes become no more than they say.

use std::{
    fmt::Write,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;
use limiter_lists::{Format, Options, Range, read};
use proptest::prelude::*;

fn options(format: Option<Format>, fields: &[&str]) -> Options {
    let fields = fields.iter().map(|field| (*field).to_owned()).collect();
    Options {
        format,
        fields,
        max_size: 1 << 20,
    }
}

fn any_v4() -> impl Strategy<Value = IpNet> {
    // In a range, 255.255.255.255 may be a netmask: no packet has such a source.
    (0..0xe000_0000_u32, 1..=32_u8).prop_map(|(bits, length)| {
        let length = if bits >= 0x8000_0000 {
            length.max(3)
        } else {
            length
        };
        let net = IpNet::new(IpAddr::V4(Ipv4Addr::from_bits(bits)), length).expect("a length");
        net.trunc()
    })
}

fn any_net() -> impl Strategy<Value = IpNet> {
    let v6 = (any::<u128>(), 1..=128_u8).prop_map(|(bits, length)| {
        // The addresses are global, so that none of them is an IPv4 address in IPv6 form.
        let address = Ipv6Addr::from_bits(bits | 1 << 127);
        IpNet::new(IpAddr::V6(address), length)
            .expect("a length")
            .trunc()
    });
    prop_oneof![any_v4(), v6]
}

/// The prefixes of a list, of which nothing may be left out.
fn back(text: &str, options: &Options) -> Vec<IpNet> {
    let list = read(text.as_bytes(), options).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(list.left_out.examples, [], "{text}");
    assert!(list.entries.iter().all(|entry| !entry.has_host_bits));
    list.entries
        .iter()
        .flat_map(|entry| entry.range.prefixes())
        .collect()
}

fn lines(nets: &[IpNet], line: impl Fn(&IpNet, Range) -> String) -> String {
    nets.iter().fold(String::new(), |mut text, net| {
        let _ = writeln!(text, "{}", line(net, Range::of_prefix(net)));
        text
    })
}

/// Such a row could be a header by its letters.
#[test]
fn first_row_of_addresses_without_digits_is_read() {
    let nets: [IpNet; 2] = ["fc::/16", "dead:beef::/32"].map(|net| net.parse().unwrap());
    let ends = "fc::,fc:ffff:ffff:ffff:ffff:ffff:ffff:ffff\ndead:beef::,dead:beef:ffff:ffff:ffff:ffff:ffff:ffff\n";
    let ranges = options(Some(Format::Ranges), &["1", "2"]);
    assert_eq!(back(ends, &ranges), nets);
    let single: [IpNet; 2] = ["fc::/128", "dead:beef::/128"].map(|net| net.parse().unwrap());
    assert_eq!(
        back("fc::;x\ndead:beef::;x\n", &options(None, &["1"])),
        single
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn prefixes_read_back_from_each_format(nets in prop::collection::vec(any_net(), 3..20)) {
        let auto = options(None, &[]);
        let ranges = |between: &'static str| {
            lines(&nets, move |_, range| format!("{}{between}{}", range.first(), range.last()))
        };
        let joined = |between| nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(between);
        let dshield = |net: &IpNet, range: Range| {
            format!("{}\t{}\t{}\t7\tNAME", range.first(), range.last(), net.prefix_len())
        };
        let json = joined("\",\"");
        for (text, options) in [
            (lines(&nets, |net, _| format!("{net} # x")), &auto),
            (lines(&nets, |net, _| format!("{net} ; SBL1")), &auto),
            (ranges("-"), &auto),
            (ranges(" - "), &auto),
            (ranges(" "), &options(Some(Format::Ranges), &[])),
            (ranges(","), &options(Some(Format::Ranges), &[])),
            (ranges(","), &options(Some(Format::Ranges), &["1", "2"])),
            (lines(&nets, |net, _| format!("{},{},x", net.addr(), net.prefix_len())), &options(Some(Format::Networks), &[])),
            (lines(&nets, |net, _| format!("x {} {}", net.prefix_len(), net.addr())), &options(Some(Format::Networks), &["3", "2"])),
            (format!("start,end\n{}", ranges(",")), &auto),

            (format!("Start\tEnd\tNetmask\tAttacks\n{}", lines(&nets, dshield)), &auto),
            (lines(&nets, dshield), &auto),
            (joined(", "), &auto),
            (lines(&nets, |net, _| format!("\"x, y\",\"{net}\"")), &auto),
            (format!("a;cidr\n{}", lines(&nets, |net, _| format!("x;{net}"))), &auto),
            (lines(&nets, |net, _| format!("x;{net}")), &options(None, &["2"])),
            (lines(&nets, |net, _| format!("add bad {net} timeout 0")), &auto),
            (format!("table ip t {{\n set s {{\n elements = {{ {} }}\n }}\n}}", joined(",\n")), &auto),
            (format!("[\"{json}\"]"), &auto),
            (format!("[[\"{json}\"]]"), &auto),
            (format!("{{\"a\":[\"{json}\"]}}"), &options(None, &["a[]"])),
            (lines(&nets, |net, _| format!("{{\"cidr\":\"{net}\"}}")), &auto),
            (lines(&nets, |net, _| format!("ExitAddress {net} 2026-01-01 00:00:00")), &auto),
        ] {
            prop_assert_eq!(&back(&text, options), &nets, "{}", text);
        }
    }

    #[test]
    fn ranges_with_names_read_back(nets in prop::collection::vec(any_v4(), 1..20)) {
        let auto = options(None, &[]);
        let p2p = lines(&nets, |_, range| format!("a: b:{}-{}", range.first(), range.last()));
        prop_assert_eq!(&back(&p2p, &auto), &nets);
        let padded = |address: IpAddr| match address {
            IpAddr::V4(address) => address.octets().map(|byte| format!("{byte:03}")).join("."),
            IpAddr::V6(_) => unreachable!("IPv4 only"),
        };
        let ipfilter = |_: &IpNet, range: Range| {
            format!("{} - {} , 000 , a, b", padded(range.first()), padded(range.last()))
        };
        prop_assert_eq!(&back(&lines(&nets, ipfilter), &auto), &nets);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in [None].into_iter().chain(Format::ALL.map(|(format, _)| Some(format))) {
            let _ = read(&bytes, &options(format, &[]));
        }
    }

    /// Texts of what lists are made of. Each entry covers only addresses between two that its line names, or has a length
    /// that the line names.
    #[test]
    fn no_entry_is_larger_than_its_line_says(
        parts in prop::collection::vec(prop::sample::select(PARTS), 0..40),
        format in 0..=Format::ALL.len(),
    ) {
        let text: String = parts.concat();
        let format = Format::ALL.get(format).map(|(format, _)| *format);
        let Ok(list) = read(text.as_bytes(), &options(format, &[])) else {
            return Ok(());
        };
        for entry in list.entries.iter() {
            let limiter_lists::Place::Line(number) = entry.place else {
                continue;
            };
            let first = number as usize - 1;
            // The end of a range of nft may be in a later line.
            let line: String = text.lines().skip(first).take(if list.format == Format::Nft { 9 } else { 1 }).collect();
            let shortest = entry.range.prefixes().map(|net| net.prefix_len()).min().expect("a prefix");
            let has_length = (0..=shortest).any(|length| line.contains(&format!("/{length}")) || line.contains(&format!("\t{length}")));
            let is_word = |length: u8| line.split([' ', ',', ';', '\t', '/']).any(|word| word == length.to_string());
            let has_length = has_length || list.format == Format::Networks && (0..=shortest).any(is_word);
            let has_mask = line.contains("255.255.");
            let has_ends = line.contains(&entry.range.first().to_string()) && line.contains(&entry.range.last().to_string());
            let is_one = entry.range.first() == entry.range.last();
            prop_assert!(is_one || has_length || has_mask || has_ends, "{:?} of {}", entry, line);
        }
    }
}

const PARTS: &[&str] = &[
    "192.0.2.1",
    "198.51.100.0",
    "203.0.113.255",
    "2001:db8::1",
    "2001:db8:1::",
    "/24",
    "/32",
    "/8",
    "-",
    " - ",
    " ",
    ",",
    ";",
    "\t",
    "\n",
    "\n",
    "\n",
    "#",
    "\"",
    "255.255.255.0",
    "x:",
    "24",
    "8",
    "{",
    "}",
    "[",
    "]",
    "add bad ",
    "create bad hash:net\n",
    "timeout 5",
    "nomatch",
    "set s {\n",
    "elements = {",
    "table t {\n",
    "ip,x\n",
    "start,end\n",
    "start\tend\tnetmask\n",
    "ip\tmask\n",
    "ExitAddress ",
    ", 000 , x",
    "\"cidr\":",
    "192.000.002.001",
    "/255.255.0.0",
    "0.0.0.0",
    "::",
    "name",
    "//",
    ".",
    ":",
];
