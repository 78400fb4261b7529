//! The output of every `--json` option matches `docs/schema`, by an independent validator.

use std::{fs, time::Duration};

use limiter_tests::{
    captures::{Captured, pcap},
    files::{Folder, at_driver},
    hosts::{CLIENT, Hosts},
    need_kernel, number, schema,
    traffic::{Flood, Traffic, udp},
    watcher::Watcher,
};
use serde_json::json;

const FILE: &str = r#"
exempt = ["established", "control"]
new_sources = "1k/s"

[lists]
allow = ["192.0.2.1"]
deny = ["203.0.113.0/24"]
partners = ["192.0.2.0/24"]

[[limit]]
name = "dns"
match = { protocol = "udp", destination_port = 53 }
rate = "1/h"
burst = 3

[[limit]]
name = "others"
match = { unless = "partners" }
rate = "1/h"
burst = 5
shadow = true
"#;

#[test]
fn json_of_every_verb_matches_its_schema() {
    need_kernel!();
    if !schema::has_validator("schema") {
        return;
    }
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let empty = hosts.json("status --json");
    let file = folder.write("limiter.toml", at_driver(FILE));
    let attach = ["attach", "eth0", "--config", &file, "--try", "1h"];
    hosts.limiter(&attach).expect(0);
    let mut watcher = Watcher::start(&hosts, &["--json"]);
    let traffic = Traffic::new(&hosts);
    for source in ["198.51.100.7", "203.0.113.9", "192.0.2.1", "192.0.2.2"] {
        let passed = traffic.passed_to(53, source, 10);
        assert!(passed <= 10, "{source}: {passed}");
    }
    let events = [watcher.event(), watcher.event()];
    let flood = Flood::start(
        &hosts,
        vec![udp(&hosts, CLIENT, 53)],
        Duration::from_millis(1),
    );
    let table = hosts.json("watch eth0 --by source,network,reason --for 1s --json");
    flood.end();
    assert_eq!(table["senders"][0]["network"], "192.0.2.0/24", "{table}");
    let frame = udp(&hosts, CLIENT, 53);
    let capture = pcap(&[1, 2].map(|time| Captured::whole(time, frame.clone())));
    let (capture, verdicts) = (folder.write("test.pcap", capture), folder.path("verdicts"));
    let replay = format!("replay {capture} --rate 1/h --burst 1 --json --verdicts {verdicts}");
    let replay = hosts.json(&replay);
    let lines = fs::read_to_string(&verdicts).unwrap();
    let mut lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let values = [
        ("status", empty),
        ("status", hosts.json("status eth0 --json")),
        ("top", hosts.json("top eth0 --once --json")),
        ("check", hosts.json("check eth0 198.51.100.7 --json")),
        (
            "check",
            hosts.json("check eth0 198.51.100.7 --protocol icmp --json"),
        ),
        ("check", hosts.json("check eth0 203.0.113.9 --json")),
        ("check", hosts.json("check eth0 2001:db8::1 --json")),
        ("list", hosts.json("deny list eth0 --json")),
        ("list", hosts.json("tier list eth0 partners --json")),
        ("doctor", hosts.json("doctor eth0 --json")),
        ("difference", hosts.json("config diff eth0 --json")),
        ("history", hosts.json("history eth0 --json")),
        ("watch", events[0].clone()),
        ("watch", events[1].clone()),
        ("watch-by", table),
        ("replay", replay),
        ("verdicts", lines.next().unwrap()),
        ("verdicts", lines.next().unwrap()),
    ];
    for (name, value) in &values {
        assert_eq!(schema::faults(name, value), "", "{name}: {value:#}");
    }
    let interface = &values[1].1["interfaces"][0];
    assert_eq!(
        interface["limits"].as_array().unwrap().len(),
        4,
        "{interface}"
    );
    assert!(!values[2].1["sources"].as_array().unwrap().is_empty());
    assert!(
        number(&interface["drops"]["deny"]["bytes"]) > 0,
        "{interface}"
    );
    // The validator must find a missing key, an extra key, and a number as text.
    for (key, wrong) in [
        ("ifindex", None),
        ("new", Some(json!(1))),
        ("program_id", Some(json!("7"))),
    ] {
        let mut value = values[1].1.clone();
        let interface = value["interfaces"][0].as_object_mut().unwrap();
        match wrong {
            None => drop(interface.remove(key)),
            Some(wrong) => drop(interface.insert(key.to_owned(), wrong)),
        }
        assert_ne!(schema::faults("status", &value), "", "{key}");
    }
}
