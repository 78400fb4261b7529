//! `check` and `reset` handle a source with several buckets: one for each limit, and for each port.

use std::time::Duration;

use limiter_tests::{
    hosts::Hosts,
    need_kernel, number,
    traffic::{Flood, Traffic, udp},
};
use serde_json::{Value, json};

const LIMITS: &str = r#"
interfaces = ["eth0"]
[lists]
friends = ["198.51.100.0/24"]

[[limit]]
name = "port"
match = { protocol = "udp", unless = "friends" }
key = "/32,/64,destination_port"
rate = "1/h"
burst = 3

[[limit]]
name = "subnet"
key = "/24,/48"
rate = "1/h"
burst = 8

[[limit]]
name = "six"
match = { ip_version = 6 }
rate = "1/h"
burst = 2
"#;

fn attached() -> Hosts {
    let hosts = Hosts::new();
    hosts.attach_file(LIMITS);
    hosts
}

/// One line for each bucket: limit, key, true if it is in the table, whole tokens, packets passed and dropped.
fn buckets(hosts: &Hosts, source: &str) -> Vec<String> {
    let check = hosts.json(&["check", "eth0", source, "--json"]);
    let limits = check["limits"].as_array().unwrap();
    let line = |limit: &Value| {
        let text = |key: &str| limit[key].as_str().unwrap().to_owned();
        let tokens = limit["tokens"].as_f64().unwrap().floor();
        let counters = ["tracked", "passed_packets", "dropped_packets"];
        let [tracked, passed, dropped] = counters.map(|key| limit[key].to_string());
        let (name, bucket) = (text("name"), text("bucket"));
        format!("{name} of {bucket}: {tracked}, {tokens}, {passed}, {dropped}")
    };
    limits.iter().map(line).collect()
}

#[test]
fn check_shows_every_bucket_of_a_source() {
    need_kernel!();
    let hosts = attached();
    let before = [
        "port of 192.0.2.7: false, 3, 0, 0",
        "subnet of 192.0.2.0/24: false, 8, 0, 0",
    ];
    assert_eq!(buckets(&hosts, "192.0.2.7"), before);
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed_to(53, "192.0.2.7", 5), 3);
    assert_eq!(traffic.passed_to(80, "192.0.2.7", 2), 2);
    assert_eq!(traffic.passed_to(80, "192.0.2.8", 1), 1);
    let after = [
        "port of 192.0.2.7 port 53: true, 0, 3, 2",
        "port of 192.0.2.7 port 80: true, 1, 2, 0",
        "subnet of 192.0.2.0/24: true, 2, 6, 0",
    ];
    assert_eq!(buckets(&hosts, "192.0.2.7"), after);
    let top = hosts.json("top eth0 --once --json");
    let row = |row: &Value| json!([row["source"], row["limit"], row["dropped_packets"]]);
    let rows: Vec<_> = top["sources"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(rows[0], json!(["192.0.2.7 port 53", "port", 2]), "{top}");
    let network = json!(["192.0.2.0/24", "subnet", 0]);
    assert!(rows.contains(&network), "{top}");
    let text = hosts.run("check eth0 192.0.2.7");
    for line in [
        "port for 192.0.2.7 port 53: 0.0 of 3 tokens",
        "subnet for 192.0.2.0/24: 2.0 of 8 tokens",
        "the next packet passes in",
    ] {
        assert!(text.contains(line), "wanted '{line}': {text}");
    }

    // `check` shows only the limits that apply to the source, by list and by IP version.
    let friend = ["subnet of 198.51.100.0/24: false, 8, 0, 0"];
    assert_eq!(buckets(&hosts, "198.51.100.7"), friend);
    assert_eq!(traffic.passed("2001:db8:0:1::7", 3), 2);
    let of_ipv6 = [
        "port of 2001:db8:0:1::/64 port 9: true, 1, 2, 0",
        "subnet of 2001:db8::/48: true, 6, 2, 0",
        "six of 2001:db8:0:1::/64: true, 0, 2, 1",
    ];
    assert_eq!(buckets(&hosts, "2001:db8:0:1::8"), of_ipv6);
}

#[test]
fn reset_refills_every_bucket_of_a_source_and_no_other() {
    need_kernel!();
    let hosts = attached();
    let traffic = Traffic::new(&hosts);
    let reset = |source: &str, result: &str| {
        let text = hosts.run(&format!("reset eth0 {source}"));
        assert_eq!(text, format!("eth0: {result}\n"));
    };
    let full = "unchanged: 192.0.2.7 was not in the table: its buckets are full";
    reset("192.0.2.7", full);
    assert_eq!(traffic.passed_to(53, "192.0.2.7", 4), 3);
    assert_eq!(traffic.passed_to(80, "192.0.2.7", 4), 3);
    assert_eq!(traffic.passed_to(53, "192.0.2.8", 4), 2, "8 of the /24");
    let passed = number(&hosts.status()["passed"]["packets"]);
    reset("192.0.2.7", "refilled 3 buckets of 192.0.2.7");
    let other = &buckets(&hosts, "192.0.2.8")[0];
    assert_eq!(other, "port of 192.0.2.8 port 53: true, 1, 2, 0");
    assert_eq!(hosts.status()["passed"]["packets"], passed, "they count on");
    assert_eq!(traffic.passed_to(53, "192.0.2.7", 4), 3);
    assert_eq!(traffic.passed_to(80, "192.0.2.7", 4), 3);
    assert_eq!(traffic.passed_to(53, "192.0.2.8", 4), 1);

    assert_eq!(traffic.passed("2001:db8:0:1::7", 3), 2);
    reset("2001:db8:0:1::9", "refilled 3 buckets of 2001:db8:0:1::9");
    assert_eq!(traffic.passed("2001:db8:0:1::7", 3), 2);

    let tracked = number(&hosts.status()["sources"]["tracked"]);
    reset(
        "--all",
        &format!("{tracked} forgotten: every bucket is full again"),
    );
    assert_eq!(number(&hosts.status()["sources"]["tracked"]), 0);
    assert_eq!(traffic.passed_to(53, "192.0.2.8", 4), 3);
}

#[test]
fn status_shows_that_128_bit_addresses_take_two_entries() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 2 --key /32,/128 --max-sources 4");
    let empty = "eth0: no source is in the table\n";
    assert_eq!(hosts.run("top eth0 --once"), empty);
    let traffic = Traffic::new(&hosts);
    let passed = (1..=3).map(|host| traffic.passed(&format!("2001:db8::{host}"), 1));
    assert_eq!(passed.sum::<u64>(), 2, "the third source has no room");
    let sources = &hosts.status()["sources"];
    let found = ["tracked", "entries", "capacity"].map(|name| number(&sources[name]));
    assert_eq!(found, [2, 4, 4]);
    let status = hosts.run("status eth0");
    let line = "  sources  2 in 4 entries of 4, ";
    assert!(status.contains(line), "{status}");
}

/// This holds even if all sources share the bucket.
#[test]
fn reset_leaves_limits_on_the_other_ip_version() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = [\"eth0\"]\n[[limit]]\nname = \"six\"\nmatch = { ip_version = 6 }\n\
         key = \"interface\"\nrate = \"1/h\"\nburst = 2\n",
    );
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed("2001:db8:0:1::7", 3), 2);
    assert_eq!(
        hosts.run("reset eth0 192.0.2.7"),
        "eth0: unchanged: no limit matches 192.0.2.7: it has no bucket\n"
    );
    assert_eq!(traffic.passed("2001:db8:0:1::7", 3), 0, "still empty");
    assert_eq!(
        hosts.run("check eth0 192.0.2.7"),
        "192.0.2.7 on eth0\n  no limit matches it: passes\n"
    );
    assert_eq!(
        hosts.run("reset eth0 2001:db8::1"),
        "eth0: refilled 1 bucket of 2001:db8::1\n"
    );
    assert_eq!(traffic.passed("2001:db8:0:1::7", 3), 2);
}

/// The file has two prefixes, one inside the other. A command adds a third.
#[test]
fn check_names_the_deciding_prefix() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = [\"eth0\"]\n[lists]\nallow = [\"10.0.0.0/8\"]\ndeny = [\"10.1.0.0/16\"]\nown = [\"10.1.2.0/24\"]\n\
         [[limit]]\nname = \"all\"\nrate = \"1/h\"\nburst = 1\n",
    );
    let entries = |source: &str| {
        let check = hosts.json(&["check", "eth0", source, "--json"]);
        let lists = check["lists"].as_array().unwrap().clone();
        let row = |entry: &Value| json!([entry["list"], entry["prefix"]]);
        lists.iter().map(row).collect::<Vec<_>>()
    };
    let own = json!(["own", "10.1.2.0/24"]);
    let denied = [json!(["deny", "10.1.0.0/16"]), own.clone()];
    assert_eq!(entries("10.1.2.7"), denied);
    assert_eq!(entries("10.2.0.1"), [json!(["allow", "10.0.0.0/8"])]);
    assert_eq!(entries("192.0.2.7"), [json!(null); 0]);
    hosts.run("allow add eth0 10.1.2.7");
    assert_eq!(entries("10.1.2.7"), [json!(["allow", "10.1.2.7"]), own]);
    let text = hosts.run("check eth0 10.1.2.7");
    assert!(
        text.contains("10.1.2.7 on the allow list: passes before any limit\n"),
        "{text}"
    );
}

#[test]
fn check_of_a_denied_source_has_no_retry_after() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    assert_eq!(Traffic::new(&hosts).passed("192.0.2.7", 2), 1);
    let retry = || {
        let check = hosts.json("check eth0 192.0.2.7 --json");
        check["limits"][0]["retry_after_seconds"].as_f64()
    };
    assert!(retry() > Some(3_000.0));
    hosts.run("deny add eth0 192.0.2.7");
    assert_eq!(retry(), None);
    let text = hosts.run("check eth0 192.0.2.7");
    assert!(text.contains("no packet passes while"), "{text}");
    hosts.run("set eth0 --shadow on");
    let text = hosts.run("check eth0 192.0.2.7");
    assert!(text.contains("passes only because of shadow"), "{text}");
    hosts.run("set eth0 --shadow off");
    hosts.run("deny remove eth0 192.0.2.7");
    hosts.run("allow add eth0 192.0.2.7");
    assert_eq!(retry(), Some(0.0));
}

/// Three sources are over the limit, and one of them is shown. Meanwhile, new sources are refused, and a banned source
/// sends.
#[test]
fn top_rows_add_up_to_the_drops_of_the_interface() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1 --new-sources 1/h --new-sources-burst 3");
    let traffic = Traffic::new(&hosts);
    let banned = "203.0.113.66";
    for (source, sent) in [("192.0.2.7", 6), ("192.0.2.8", 4), (banned, 3)] {
        assert_eq!(traffic.passed(source, sent), 1, "{source}");
    }
    assert_eq!(traffic.passed("192.0.2.9", 7), 0, "a new source");
    hosts.run(&format!("ban eth0 {banned}"));
    assert_eq!(traffic.passed(banned, 9), 0, "banned");
    let top = |most: &str| {
        let top = ["top", "eth0", "--once", "--json", "--interval=500ms", "-n"];
        hosts.json(&[&top[..], &[most]].concat())
    };
    let shown = top("1");
    let line = |line: &Value| json!([line["reason"], line["dropped_packets"]]);
    let drops = shown["other_drops"].as_array().unwrap().iter().map(line);
    assert_eq!(
        drops.collect::<Vec<_>>(),
        [
            json!(["limit", 5]),
            json!(["new_source", 7]),
            json!(["ban", 9])
        ]
    );
    assert_eq!(shown["sources"][0]["dropped_packets"], 5, "{shown}");
    assert_eq!(shown["dropped"]["packets"], 5 + 5 + 9 + 7, "{shown}");
    assert!(
        shown["interval_seconds"].as_f64().unwrap() >= 0.5,
        "{shown}"
    );

    let frame = udp(&hosts, banned.parse().unwrap(), 9);
    let flood = Flood::start(&hosts, vec![frame], Duration::from_millis(1));
    let under_flood = top("9");
    drop(flood);
    let others = under_flood["other_drops"].as_array().unwrap();
    let of_bans = others.iter().find(|line| line["reason"] == "ban").unwrap();
    let rate = &of_bans["dropped_packets_per_second"];
    assert!(rate.as_f64().unwrap() > 10.0, "{under_flood}");
    let sources = under_flood["sources"].as_array().unwrap();
    let source = sources
        .iter()
        .find(|line| line["source"] == banned)
        .unwrap();
    assert!(source["dropped_packets_per_second"].is_null(), "{source}");
    let text = hosts.run("top eth0 --once");
    for words in "DROP/s|new sources|new source | ban | banned ".split('|') {
        assert!(text.contains(words), "{words}: {text}");
    }
}
